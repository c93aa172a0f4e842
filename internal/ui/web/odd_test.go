package web

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
)

// table returns all routes of a server.
func (s *Server) table() []route {
	if s.copy != nil {
		return s.copyRoutes()
	}
	return s.routes()
}

// files returns the state of the files of a house: their modes, sizes and times. The index of searches, and so the
// directory that it is made in, may change at any time.
func (h *house) files() map[string]string {
	h.t.Helper()
	all := map[string]string{}
	for _, root := range []string{h.dir, h.home} {
		if root == "" {
			continue
		}
		if err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err == nil && name != h.home && !strings.HasPrefix(e.Name(), "search.db") {
				all[name] = fmt.Sprint(info.Mode(), info.Size(), info.ModTime())
			}
			return err
		}); err != nil {
			h.t.Fatal(err)
		}
	}
	return all
}

// unchanged checks that nothing is written while do runs.
func (h *house) unchanged(what string, do func()) {
	h.t.Helper()
	files := h.files()
	_, before := h.store.counts()
	do()
	if _, after := h.store.counts(); after != before {
		h.t.Errorf("%s: %d batches were committed", what, after-before)
	}
	if diff := cmp.Diff(files, h.files()); diff != "" {
		h.t.Errorf("%s: files are not as they were: -before +after\n%s", what, diff)
	}
}

// places fills a route's path with valid and invalid values.
func places(path string, rows []store.Thread, gateID string) (out []string) {
	for _, row := range rows {
		out = append(out, fill(path, row, gateID))
	}
	for _, odd := range []string{"x", "..", "%2e%2e%2f%2e%2e", "a%2Fb", "%00", "%ff", strings.Repeat("a", 4000),
		"%3Cscript%3E", strings.ToLower(rows[0].ID), "01JD0000000000000000000000", "-1", "~", "chat.yaml", "a%5Cb"} {
		if filled := pathField.ReplaceAllString(strings.ReplaceAll(path, "{$}", ""), odd); filled != out[0] {
			out = append(out, filled)
		}
	}
	return out
}

// oddValues returns values that a query should not have.
func oddValues(rows []store.Thread) []string {
	return []string{"", "-1", "0", "1", "99", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e9",
		"0x10", "١", "\x00", "\xff", "../../etc/passwd", "<script>", "'", strings.Repeat("9", 5000),
		strings.Repeat("a", 5000),
		"true", "TRUE", rows[0].ID, rows[1].ID, rows[0].Head.String(), "overview", "\n", " ", "%", "&", "a=b"}
}

// TestOddQueries requests every route with values that make no sense: each is answered soon,
// nothing breaks, and nothing changes.
func TestOddQueries(t *testing.T) {
	h := newHouse(t, gatedAgents())
	rows := []store.Thread{h.run(gated, "do it"), h.chat("hello")}
	g := h.gate(rows[0].ID)
	below := regexp.MustCompile(`[?&;]from=-\d{3}|from=0\b`)
	for name, s := range map[string]*site{"live": h.open(""), "a copy": h.openCopy(h.copied(rows[0]))} {
		h.unchanged(name, func() {
			asked := 0
			for _, r := range s.srv.table() {
				if r.Method != http.MethodGet || strings.HasSuffix(r.Path, "/v1/events") {
					continue
				}
				targets := places(r.Path, rows, g.ID)
				query := append([]field{{Name: "other"}}, r.Query...)
				if s.srv.copy != nil {
					query = append(query, field{Name: "from"})
				}
				for _, f := range query {
					for _, v := range oddValues(rows) {
						q := "?" + f.Name + "=" + url.QueryEscape(v)
						targets = append(targets, fill(r.Path, rows[0], g.ID)+q, fill(r.Path, rows[1], g.ID)+q+"&"+f.Name+"=2")
					}
				}
				for _, target := range append(targets, targets[0]+"?%zz", targets[0]+"?;",
					targets[0]+"?"+strings.Repeat("a&", 2000)) {
					res := s.get(target)
					asked++
					if res.code >= 500 {
						t.Errorf("%.200s: %d: %.300s", target, res.code, res.body)
					}
					if s.srv.copy == nil && below.MatchString(res.body) {
						t.Errorf("%.200s leads to %s", target, below.FindString(res.body))
					}
				}
			}
			if asked < 300 {
				t.Errorf("only %d were asked", asked)
			}
		})
	}
}

// TestMethods requests every route with every other method: none of them does anything.
func TestMethods(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	g := h.gate(row.ID)
	for name, s := range map[string]*site{"live": h.open(""), "a copy": h.openCopy(h.copied(row))} {
		h.unchanged(name, func() {
			taken := map[string]map[string]bool{}
			for _, r := range s.srv.table() {
				if taken[r.Path] == nil {
					taken[r.Path] = map[string]bool{}
				}
				taken[r.Path][r.Method] = true
			}
			for _, r := range s.srv.table() {
				target := fill(r.Path, row, g.ID)
				for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND",
					"QUERY", "PURGE", "get", "Post", "X"} {
					if taken[r.Path][method] && method != http.MethodGet {
						continue
					}
					if method == http.MethodGet && strings.HasSuffix(r.Path, "/v1/events") {
						continue
					}
					for _, over := range []string{"", "POST", "DELETE"} {
						head := http.Header{"Content-Type": {"application/json"}, "Origin": {"http://" + s.host},
							"Sec-Fetch-Site": {"same-origin"}}
						if over != "" {
							head["X-Http-Method-Override"], head["X-Http-Method"],
								head["X-Method-Override"] = []string{over}, []string{over}, []string{over}
						}
						res := s.do(method, target, head, []byte(`{}`))
						switch reads := method == http.MethodGet || method == http.MethodHead; {
						case reads && taken[r.Path][http.MethodGet]:
							if res.code >= 500 || method == http.MethodHead && res.body != "" {
								t.Errorf("%s %s: %d %s", method, target, res.code, res.body)
							}
						case res.code != http.StatusMethodNotAllowed || res.head.Get("Allow") == "":
							t.Errorf("%s %s: %d, allowed is %q", method, target, res.code, res.head.Get("Allow"))
						}
					}
				}
			}
		})
	}
}

// TestOddBodies posts invalid, deep and large bodies, and bodies for what does not exist.
func TestOddBodies(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row, chat := h.run(gated, "do it"), h.chat("hello")
	g := h.gate(row.ID)
	s := h.open("")
	large := strings.Repeat("é\\n", (maxBody-200)/4)
	for _, r := range s.srv.routes() {
		if r.Method != http.MethodPost || !r.api() {
			continue
		}
		bodies := []string{`{"\u0000":"x"}`, `{"":""}`, `{"text":{"text":"x"}}`, `{"text":["x"]}`, "\ufeff{}",
			`{"text":"x"}x`, `{"te\u0078t":"x","text":"y"}`, `{"__proto__":"x"}`, strings.Repeat("[", 500_000),
			`{"` + strings.Repeat("a", 500_000) + `":"x"}`, `{"text":"\ud800"}`}
		for _, f := range r.Body {
			for _, v := range []string{`1`, `null`, `[]`, `{}`, `"x","` + f.Name + `":"y"`} {
				bodies = append(bodies, `{"`+f.Name+`":`+v+`}`)
			}
		}
		h.unchanged(r.Path, func() {
			for _, body := range bodies {
				if res := s.post(fill(r.Path, row, g.ID), body); res.code != http.StatusBadRequest {
					t.Errorf("%s with %.80s: %d %.300s", r.Path, body, res.code, res.body)
				}
			}
			for _, target := range places(r.Path, []store.Thread{{ID: "01JD0000000000000000000000"}, {ID: g.ID}}, "g-0") {
				body := map[string]any{}
				for _, f := range r.Body {
					body[f.Name] = map[string]any{"string": "x", "boolean": true}[f.Type]
				}
				data, _ := json.Marshal(body)
				if res := s.post(target, string(data)); res.code/100 != 4 {
					t.Errorf("%.100s: %d %.300s", target, res.code, res.body)
				}
			}
		})
	}
	// Valid requests are started, and continue while others are sent.
	for _, r := range s.srv.routes() {
		for _, f := range r.Body {
			if f.Type != "string" {
				continue
			}
			for _, v := range []string{large, "a/b", "../x", `a\u0000b`, `\u202e`, row.ID, chat.ID, chat.Head.String(), "-1",
				"99999999999999999999", "0"} {
				body := map[string]json.RawMessage{}
				for _, other := range r.Body {
					if other.Required {
						body[other.Name] = json.RawMessage(`"` + flow.ChatFlow + `"`)
					}
				}
				body[f.Name] = json.RawMessage(`"` + v + `"`)
				if res := s.post(fill(r.Path, row, "g-0"), string(mustJSON(body))); res.code >= 500 {
					t.Errorf("%s, %s of %d bytes: %d %.300s", r.Path, f.Name, len(v), res.code, res.body)
				}
			}
		}
	}
	var begun store.Thread
	for _, one := range h.tasks() {
		if len(h.firstPrompt(one)) > maxBody/2 {
			begun = one
		}
	}
	if begun.ID == "" {
		t.Fatal("no task has a large prompt")
	}
	for _, path := range []string{"/tasks/" + begun.ID, "/chats/" + begun.ID, "/threads/" + begun.ID, "/", "/tasks",
		"/chats", "/hosts"} {
		if res := s.get(path); res.code != http.StatusOK || len(res.body) > 4*maxBody {
			t.Errorf("%s: %d, %d bytes", path, res.code, len(res.body))
		}
	}
}

func (h *house) firstPrompt(row store.Thread) string {
	h.t.Helper()
	start, err := h.controller().Reader().Start(h.t.Context(), row.Start)
	if err != nil {
		h.t.Fatal(err)
	}
	text, err := h.controller().Reader().Text(h.t.Context(), start.Prompt)
	if err != nil {
		h.t.Fatal(err)
	}
	return text
}
