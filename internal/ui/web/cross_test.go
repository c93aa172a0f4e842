package web

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// page requests a route of a task, or only the headers if the route is a stream.
func (s *site) page(r route, row store.Thread, gateID string) response {
	s.t.Helper()
	method := r.Method
	if strings.HasSuffix(r.Path, "/events") {
		method = http.MethodHead
	}
	return s.do(method, fill(r.Path, row, gateID), http.Header{"Accept": {"text/html"}}, nil)
}

// TestCross sends every POST as another site's pages would.
func TestCross(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	g := h.gate(row.ID)
	s := h.open("")
	_, before := h.store.counts()
	json := "application/json"
	forms := []struct {
		name string
		head http.Header
		body string
		want int
	}{
		{"cross-site", http.Header{"Sec-Fetch-Site": {"cross-site"}}, `{"text":"x"}`, 403},
		{"same-site", http.Header{"Sec-Fetch-Site": {"same-site"}}, `{"text":"x"}`, 403},
		{"said twice", http.Header{"Sec-Fetch-Site": {"same-origin", "cross-site"}}, `{"text":"x"}`, 403},
		{"none, null origin", http.Header{"Sec-Fetch-Site": {"none"}, "Origin": {"null"}}, `{"text":"x"}`, 403},
		{"null origin", http.Header{"Origin": {"null"}}, `{"text":"x"}`, 403},
		{"same-origin, null origin", http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"null"}}, `{"text":"x"}`, 403},
		{"empty origin", http.Header{"Origin": {""}}, `{"text":"x"}`, 403},
		{"another host", http.Header{"Origin": {"http://evil.com"}}, `{"text":"x"}`, 403},
		{"another port", http.Header{"Origin": {"http://127.0.0.1:1"}}, `{"text":"x"}`, 403},
		{"another scheme", http.Header{"Origin": {"https://" + s.host}}, `{"text":"x"}`, 403},
		{"another name of ours", http.Header{"Origin": {"http://localhost" + s.host[len("127.0.0.1"):]}}, `{"text":"x"}`,
			403},
		{"a name that begins like ours", http.Header{"Origin": {"http://" + s.host + ".evil.com"}}, `{"text":"x"}`, 403},
		{"same-origin, another host", http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"http://evil.com"}},
			`{"text":"x"}`, 403},
		{"two origins", http.Header{"Origin": {"http://" + s.host, "http://evil.com"}}, `{"text":"x"}`, 403},
		{"origins in one", http.Header{"Origin": {"http://" + s.host + " http://evil.com"}}, `{"text":"x"}`, 403},
		{"an origin with a path", http.Header{"Origin": {"http://" + s.host + "/"}}, `{"text":"x"}`, 403},
		{"an origin with a user", http.Header{"Origin": {"http://evil.com@" + s.host}}, `{"text":"x"}`, 403},
		{"an extension", http.Header{"Origin": {"chrome-extension://abcdef"}}, `{"text":"x"}`, 403},
		{"a file", http.Header{"Origin": {"file://"}}, `{"text":"x"}`, 403},
		{"no site", http.Header{"Sec-Fetch-Site": {""}}, `{"text":"x"}`, 403},
		{"a site in capitals", http.Header{"Sec-Fetch-Site": {"SAME-ORIGIN"}}, `{"text":"x"}`, 403},
		{"two sites in one", http.Header{"Sec-Fetch-Site": {"same-origin, cross-site"}}, `{"text":"x"}`, 403},
		{"cross-site, another method", http.Header{"Sec-Fetch-Site": {"cross-site"}, "X-Http-Method-Override": {"GET"}},
			`{"text":"x"}`, 403},
		{"parts", http.Header{"Content-Type": {"multipart/form-data; boundary=x"}}, "--x--", 415},
		{"two types in one", http.Header{"Content-Type": {"text/plain, application/json"}}, `{"text":"x"}`, 415},
		{"the type as a parameter", http.Header{"Content-Type": {"text/plain; application/json"}}, `{"text":"x"}`, 415},
		{"two types", http.Header{"Content-Type": {"text/plain", "application/json"}}, `{"text":"x"}`, 415},
		{"JSON by another name", http.Header{"Content-Type": {"text/json"}}, `{"text":"x"}`, 415},
		{"a form", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, "text=x", 415},
		{"plain text", http.Header{"Content-Type": {"text/plain"}}, `{"text":"x"}`, 415},
		{"no type", http.Header{"Content-Type": {""}}, `{"text":"x"}`, 415},
		{"nearly the type", http.Header{"Content-Type": {"application/jsonp"}}, `{"text":"x"}`, 415},
		{"too large", nil, `{"text":"` + strings.Repeat("x", maxBody) + `"}`, 413},
		{"not JSON", nil, `text`, 400},
		{"two objects", nil, `{} {}`, 400},
		{"a bracket too many", nil, `{}}`, 400},
		{"null", nil, `null`, 400},
		{"a list", nil, `[]`, 400},
		{"an unknown key", nil, `{"text":"x","grant":"session"}`, 400},
		{"a key in another case", nil, `{"Text":"x"}`, 400},
		{"a key twice", nil, `{"text":"x","text":"y"}`, 400},
		{"a number", nil, `{"text":1}`, 400},
		{"no text", nil, `{"text":null}`, 400},
		{"not UTF-8", nil, "{\"text\":\"\xff\"}", 400},
		{"deep", nil, strings.Repeat(`{"text":`, 100000), 400},
	}
	posts := 0
	for _, r := range s.srv.routes() {
		if r.Method != http.MethodPost {
			continue
		}
		posts++
		if !r.api() {
			continue // see TestManyTasks
		}
		for _, f := range forms {
			head := f.head.Clone()
			if head == nil {
				head = http.Header{}
			}
			if _, ok := head["Content-Type"]; !ok {
				head.Set("Content-Type", json)
			}
			if res := s.do(r.Method, fill(r.Path, row, g.ID), head, []byte(f.body)); res.code != f.want {
				t.Errorf("%s, %s: %d %s, want %d", r.Path, f.name, res.code, res.body, f.want)
			}
		}
	}
	if _, after := h.store.counts(); posts < 5 || after != before {
		t.Errorf("%d routes take POST; they changed %d times what they should not", posts, after-before)
	}
	h.only = true
	only := h.open("")
	for _, r := range s.srv.routes() {
		if r.Method == http.MethodPost {
			if res := only.post(fill(r.Path, row, g.ID), `{"text":"x"}`); res.code != http.StatusForbidden {
				t.Errorf("%s, read-only: %d", r.Path, res.code)
			}
		}
	}
	if res := only.get("/"); strings.Contains(res.body, "<form data-api") ||
		strings.Contains(res.body, `class="row" data-api`) {
		t.Error("a page that only shows has forms")
	}
	if _, after := h.store.counts(); after != before {
		t.Error("a server that only shows changed something")
	}
}

// rows returns the contents of a store, except leases.
func (h *house) rows() []any {
	h.t.Helper()
	ctx := h.t.Context()
	pos, err := h.store.Wait(ctx, -1)
	if err != nil {
		h.t.Fatal(err)
	}
	threads, err1 := h.store.Threads(ctx, store.ThreadFilter{})
	attempts, err2 := h.store.Attempts(ctx, store.AttemptFilter{})
	gates, err3 := h.store.Gates(ctx, store.GateFilter{})
	flows, err4 := h.store.Flows(ctx)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			h.t.Fatal(err)
		}
	}
	return []any{pos, threads, attempts, gates, flows}
}

// TestGet checks that a GET changes nothing, not even an overdue gate, and that every response
// has the security headers.
func TestGet(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	g, err := h.store.Gates(t.Context(), store.GateFilter{})
	if err != nil || len(g) != 1 || g[0].State != store.GateOpen {
		t.Fatalf("%+v: %v", g, err)
	}
	overdue := g[0] // it is overdue, and viewing it must not close it
	overdue.ExpiresAt = 1
	change := store.GateChange{Row: overdue, From: store.GateOpen}
	if err := h.store.Commit(t.Context(), store.Batch{Gates: []store.GateChange{change}}); err != nil {
		t.Fatal(err)
	}
	s := h.open("")
	before := h.rows()
	hardened := func(what string, res response) {
		t.Helper()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
			"Cache-Control":              "no-store",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := res.head.Values(name); len(got) != 1 || got[0] != want {
				t.Errorf("%s (%d): %s is %q", what, res.code, name, got)
			}
		}
		if p := res.head.Values("Content-Security-Policy"); len(p) != 1 || !strings.HasPrefix(p[0], "default-src 'none'") ||
			strings.Contains(p[0], "unsafe") {
			t.Errorf("%s (%d): the policy is %q", what, res.code, p)
		}
		if res.head.Get("Content-Type") == "" || len(res.head["Access-Control-Allow-Origin"]) > 0 {
			t.Errorf("%s (%d): %v", what, res.code, res.head)
		}
	}
	for _, r := range s.srv.routes() {
		if r.Method == http.MethodGet {
			hardened(r.Path, s.page(r, row, g[0].ID))
			hardened(r.Path+" of nothing", s.page(r, store.Thread{ID: "01JD0000000000000000000000"}, "g-0"))
		} else {
			hardened(r.Path, s.get(fill(r.Path, row, g[0].ID)))
			hardened(r.Path, s.do(http.MethodPost, fill(r.Path, row, g[0].ID), nil, nil))
		}
	}
	for _, tab := range tabs {
		hardened(tab, s.get("/tasks/"+row.ID+"?tab="+tab))
	}
	for _, path := range []string{"/nothing", "/tasks?state=x", "/tasks/x", "/tasks/" + row.ID + "?tab=x",
		"/threads/" + row.ID + "?from=0", "/steps/" + row.Head.String() + "?thread=x", "/tasks?token=x", "/a/../tasks"} {
		hardened(path, s.get(path))
	}
	if after := h.rows(); !reflect.DeepEqual(before, after) {
		t.Errorf("looking changed the record:\n%v\n%v", before, after)
	}
	if list := s.data("/api/v1/gates").(map[string]any)["gates"]; len(list.([]any)) != 0 {
		t.Errorf("a gate whose time has passed is open: %v", list)
	}
	if got := s.data("/api/v1/gates/" + g[0].ID).(map[string]any)["state"]; got != "expired" {
		t.Errorf("it is %v", got)
	}
	if res := s.post("/api/v1/gates/"+g[0].ID+"/approve", `{}`); res.code != http.StatusConflict {
		t.Errorf("it is approved: %d %s", res.code, res.body)
	}
}

// TestProblems checks that errors are pages for browsers, and JSON in the API.
func TestProblems(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	s := h.open("")
	for path, want := range map[string]int{
		"/nothing": 404, "/tasks/x": 404, "/threads/01JD0000000000000000000000": 404, "/steps/abc": 404,
		"/blobs/" + strings.Repeat("0", 64): 404, "/static/x.js": 404,
		"/tasks?state=<b>": 400, "/tasks?all=maybe": 400, "/tasks?after=x": 400, "/tasks?limit=0": 400,
		"/tasks/" + row.ID + "?tab=%3Cb%3E": 400, "/threads/" + row.ID + "?from=x": 400, "/static/%2e%2e": 404,
		"/api/v1/tasks/x": 404, "/api/v1/gates/x": 404, "/api/v1/nothing": 404, "/api/v1/tasks?state=x": 400,
		"/api/v1/tasks?limit=x": 400, "/api/v1/events?after=x": 400, "/api/v1/events?after=-1": 400,
		"/api/v1/tasks?stat=failed": 400, "/api/v1/tasks?limit=5&limit=6": 400, "/api/v1/tasks?Limit=5": 400,
		"/api/v1/tasks?%zz": 400, "/api/v1/tasks?a;b": 400,
		"/api/v1/tasks?n=1001": 400, "/api/v1/tasks?limit=1001": 400, "/api/v1/tasks?n=-1": 400, "/api/v1/tasks?n=": 400,
		"/api/v1/tasks?n=1e2":     400,
		"/api/v1/threads?limit=0": 400, "/api/v1/threads/" + row.ID + "?before=99999999999999999999": 400,
		"/api/v1/threads/" + row.ID + "/tree?depth=-1":         400,
		"/api/v1/steps/" + row.Head.String() + "/calls?call=0": 400, "/threads/" + row.ID + "?from=-5": 400,
		"/api/v1/hosts?all=true": 400, "/api/v1/events?type=step.created&after=0&after=0": 400,
		"/api/v1/openapi.json?v=2":              400,
		"/api/v1/threads/" + row.ID + "?from=1": 400,
		"/api/v1/tasks/" + row.ID + "/cancel":   405, "/api/v1/steps/" + row.Head.String() + "x": 404,
	} {
		res := s.get(path)
		if res.code != want {
			t.Errorf("%s: %d, want %d", path, res.code, want)
		}
		if strings.HasPrefix(path, "/api/") {
			var e view.Envelope
			if err := json.Unmarshal([]byte(res.body), &e); err != nil || e.OK || e.Error == nil || e.Error.Message == "" ||
				e.Schema != "plait.error/1" {
				t.Errorf("%s: %s: %v", path, res.body, err)
			}
		} else if !strings.Contains(res.body, `<header class="top">`) || strings.Contains(res.body, "<b>") {
			t.Errorf("%s is no page: %s", path, res.body)
		}
		if plain := s.do(http.MethodGet, path, nil, nil); !strings.HasPrefix(path, "/api/") &&
			!strings.HasPrefix(plain.head.Get("Content-Type"), "text/plain") {
			t.Errorf("%s without a browser: %v", path, plain.head)
		}
	}
}

// replaceOnce panics unless old occurs in s exactly once.
func replaceOnce(s, old, with string) string {
	if strings.Count(s, old) != 1 {
		panic(old + " does not stand once in it")
	}
	return strings.Replace(s, old, with, 1)
}
