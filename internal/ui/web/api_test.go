package web

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// plain returns v as decoded from its JSON.
func plain(t *testing.T, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestObjects checks that the API returns what the command line prints: the values of view.
func TestObjects(t *testing.T) {
	h := newHouse(t, gatedAgents())
	s := h.open("")
	for _, empty := range []struct{ path, list string }{{"tasks", "tasks"}, {"threads", "threads"}, {"gates", "gates"},
		{"flows", "flows"}} {
		if list, ok := s.data("/api/v1/" + empty.path).(map[string]any)[empty.list].([]any); !ok || len(list) != 0 {
			t.Errorf("none of %s are %v, and not a list", empty.path, list)
		}
	}
	row := h.run(gated, "do it")
	h.begin(replaceOnce(gated, "name: gated", "name: other"), "another")
	row, err := h.store.Thread(t.Context(), row.ID)
	if err != nil {
		t.Fatal(err)
	}
	c := h.controller()
	book := &view.Reader{Store: h.store, Nodes: c.Reader(), Workspace: h.dir}
	board := &taskdir.DirWriter{Store: h.store, Reader: c.Reader()}
	ctx, g := t.Context(), h.gate(row.ID)
	for path, read := range map[string]func() (any, error){
		"tasks": func() (any, error) {
			v, err := book.Tasks(ctx, view.TaskFilter{})
			return map[string]any{"tasks": taskdir.WithCommands(taskdir.Program{}, v), "next": ""}, err
		},
		"tasks?all=true&state=input-required": func() (any, error) {
			v, err := book.Tasks(ctx, view.TaskFilter{All: true, State: view.InputRequired})
			return map[string]any{"tasks": taskdir.WithCommands(taskdir.Program{}, v), "next": ""}, err
		},
		"tasks/" + row.ID: func() (any, error) {
			v, err := book.Task(ctx, row)
			if err != nil {
				return nil, err
			}
			return taskdir.Show(taskdir.Program{}, v)
		},
		"tasks/" + row.ID + "/evidence": func() (any, error) {
			v, err := board.Evidence(ctx, row.ID)
			return map[string]any{"evidence": v}, err
		},
		"threads": func() (any, error) {
			v, next, err := book.Threads(ctx, view.ThreadFilter{})
			return map[string]any{"threads": v, "next": next}, err
		},
		"threads?parts=true": func() (any, error) {
			v, next, err := book.Threads(ctx, view.ThreadFilter{Parts: true})
			return map[string]any{"threads": v, "next": next}, err
		},
		"threads?parts=true&limit=1&since=2026-01-01": func() (any, error) {
			since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.Local).UnixMilli()
			v, next, err := book.Threads(ctx, view.ThreadFilter{Parts: true, Limit: 1, Since: since})
			return map[string]any{"threads": v, "next": next}, err
		},
		"threads/" + row.ID + "?limit=1&before=2": func() (any, error) { return book.Thread(ctx, row, 2, 1) },
		"threads/" + row.ID:                       func() (any, error) { return book.Thread(ctx, row, 0, 0) },
		"steps/" + row.Head.String():              func() (any, error) { return book.Step(ctx, row.Head, false) },
		"steps/" + row.Head.String() + "/prompt": func() (any,
			error) {
			return book.Prompt(ctx, row.Head, row.Head.String())
		},
		"gates": func() (any, error) {
			v, err := book.Gates(ctx, view.GateFilter{State: store.GateOpen})
			return map[string]any{"gates": v}, err
		},
		"gates?task=" + row.ID: func() (any, error) {
			v, err := book.Gates(ctx, view.GateFilter{State: store.GateOpen})
			return map[string]any{"gates": v}, err
		},
		"gates/" + g.ID: func() (any, error) { return book.Gate(ctx, g.ID) },
		"flows":         func() (any, error) { v, err := book.Flows(ctx); return map[string]any{"flows": v}, err },
	} {
		v, err := read()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plain(t, v), s.data("/api/v1/"+path)); diff != "" {
			t.Errorf("%s: -view +API\n%s", path, diff)
		}
	}
	if options := s.data("/api/v1/gates/" + g.ID).(map[string]any)["options"]; options == nil {
		t.Error("a list without entries is null")
	}
}

// TestPaging pages through many tasks.
func TestPaging(t *testing.T) {
	h := newHouse(t, gatedAgents())
	var ids []string
	for range shownTasks*2 + 30 {
		ids = append(ids, h.begin(gated, "needle "+string(rune('a'+len(ids)%3))).ID)
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	s := h.open("")
	var seen []string
	for path := "/tasks?q=needle"; path != ""; {
		res := s.get(path)
		rows := strings.Split(res.body, `<tr data-row data-key="`)[1:]
		if len(rows) > shownTasks {
			t.Fatalf("%d tasks on a page", len(rows))
		}
		for _, r := range rows {
			seen = append(seen, r[:26])
		}
		_, next, more := strings.Cut(res.body, `rel="next" href="`)
		path, _, _ = strings.Cut(next, `"`)
		if path = strings.ReplaceAll(path, "&amp;", "&"); !more {
			path = ""
		}
	}
	if diff := cmp.Diff(ids, seen); diff != "" {
		t.Errorf("-begun +listed\n%s", diff)
	}
	if list := s.data("/api/v1/tasks?limit=7&after=" + ids[4] +
		"&q=NEEDLE").(map[string]any)["tasks"].([]any); len(list) != 7 || list[0].(map[string]any)["id"] != ids[5] {
		t.Errorf("%d tasks after one of them", len(list))
	}
	if list := s.data("/api/v1/tasks?limit=3&q=c").(map[string]any)["tasks"].([]any); len(list) != 3 {
		t.Errorf("%d tasks with a c", len(list))
	}
	if list := s.data("/api/v1/tasks?state=completed&limit=5").(map[string]any)["tasks"].([]any); len(list) != 0 {
		t.Errorf("%v have completed", list)
	}
}

// TestOpenAPI compares the document with the table of routes and with what the routes accept.
func TestOpenAPI(t *testing.T) {
	h := newHouse(t, gatedAgents())
	h.publish = func(context.Context, store.Thread, bool, bool) (string, string, error) { return "done", "", nil }
	s := h.open("")
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			Summary     string
			Parameters  []struct{ Name, In, Description string }
			RequestBody struct {
				Content map[string]struct {
					Schema struct {
						Properties           map[string]struct{ Type string }
						Required             []string
						AdditionalProperties *bool
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(s.get("/api/v1/openapi.json").body), &doc); err != nil || doc.OpenAPI == "" {
		t.Fatalf("%v", err)
	}
	var want, got []string
	for _, r := range s.srv.routes() {
		if strings.HasPrefix(r.Path, "/api/") {
			want = append(want, strings.ToLower(r.Method)+" "+r.Path)
		}
		if r.About == "" {
			t.Errorf("%s %s says nothing of itself", r.Method, r.Path)
		}
	}
	for path, ops := range doc.Paths {
		for method, op := range ops {
			got = append(got, method+" "+path)
			for _, p := range op.Parameters {
				if p.In == "path" && !strings.Contains(path, "{"+p.Name+"}") || p.Name == "" {
					t.Errorf("%s %s: parameter %+v", method, path, p)
				}
			}
			if method != "post" {
				continue
			}
			schema := op.RequestBody.Content["application/json"].Schema
			if schema.AdditionalProperties == nil || *schema.AdditionalProperties {
				t.Errorf("%s takes any key", path)
			}
			target, body := s.example(path)
			if diff := cmp.Diff(slices.Sorted(maps.Keys(schema.Properties)), slices.Sorted(maps.Keys(body))); diff != "" {
				t.Errorf("%s: -documented +in the example\n%s", path, diff)
			}
			for name, p := range schema.Properties {
				if got := map[string]string{"string": "string", "bool": "boolean"}[fmt.Sprintf("%T", body[name])]; got != p.Type {
					t.Errorf("%s: %s is %T, documented as %s", path, name, body[name], p.Type)
				}
			}
			data, _ := json.Marshal(body)
			for _, name := range schema.Required {
				if res := s.post(target, `{}`); res.code != http.StatusBadRequest {
					t.Errorf("%s without %s: %d", path, name, res.code)
				}
			}
			body["other"] = "x"
			more, _ := json.Marshal(body)
			if res := s.post(target, string(more)); res.code != http.StatusBadRequest || !strings.Contains(res.body, "other") {
				t.Errorf("%s with another key: %d %s", path, res.code, res.body)
			}
			if res := s.post(target, string(data)); res.code != http.StatusOK {
				t.Errorf("%s with what it documents: %d %s", path, res.code, res.body)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-routes +document\n%s", diff)
	}
}

// example returns a valid URL for a route, and a body with every field that it takes.
func (s *site) example(path string) (target string, body map[string]any) {
	s.t.Helper()
	row, gateID, body := store.Thread{}, "", map[string]any{}
	switch name := path[strings.LastIndex(path, "/")+1:]; name {
	case "answer":
		row = s.run(asking, "ask")
		gateID, body = s.gate(row.ID).ID, map[string]any{"text": "8080"}
	case "approve":
		row = s.run(asking, "ask")
		g, err := s.srv.cfg.Control.Gates().Open(s.t.Context(),
			store.Gate{Kind: store.GateApproval, Source: store.SourceAgent,
				Task: row.Task, Thread: row.ID, From: row.Head, Options: []string{gate.Edit},
				Action: json.RawMessage(`{"type":"command","command":"rm x"}`)})
		if err != nil {
			s.t.Fatal(err)
		}
		gateID, body = g.ID, map[string]any{"text": "a word", "input": `{"command":"ls x"}`, "signature": "",
			"digest": g.Digest.String(), "session": false}
	case "deny":
		row = s.run(gated, "do it")
		g := s.gate(row.ID)
		gateID, body = g.ID, map[string]any{"text": "a word", "digest": g.Digest.String(), "signature": ""}
	case "stop":
		row = s.begin(asking, "ask")
		if res := s.post("/api/v1/tasks/"+row.ID+"/resume", `{}`); res.code != http.StatusOK {
			s.t.Fatalf("resume: %d %s", res.code, res.body)
		}
	case "retry":
		row, body = s.run(gated, "do it"), map[string]any{"text": "again", "about": "", "tree": ""}
		if _, err := s.srv.cfg.Control.Cancel(s.t.Context(), row.ID); err != nil {
			s.t.Fatal(err)
		}
	case "dismiss":
		row = s.run(gated, "do it")
		_, err := s.controller().Gates().Answer(s.t.Context(), s.gate(row.ID).ID, gate.Answer{Reject: true, Via: store.ViaCLI})
		if err == nil {
			_, err = s.controller().Drive(s.t.Context(), row.ID, resume)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		body = map[string]any{"tasks": row.ID}
	case "revert":
		row, body = s.chat("hello"), map[string]any{"at": "1"}
	case "fork":
		row, body = s.run(gated, "do it"), map[string]any{"at": "1", "text": "and this", "about": "", "tree": "",
			"agent": "scripted", "inPlace": true}
	case "compact":
		row, body = s.run(gated, "do it"), map[string]any{"agent": "scripted"}
	case "resume":
		row, body = s.run(asking, "ask"), map[string]any{"text": "more", "about": "", "tree": ""}
	case "cancel":
		row = s.run(gated, "do it")
	case "commit", "pr":
		row, body = s.run(gated, "do it"), map[string]any{"yes": true}
	case "tasks":
		s.write(filepath.Join(s.dir, ".git", "worktrees", "side", "gitdir"), filepath.Join(s.home, ".git"))
		body = map[string]any{"flow": flow.ChatFlow, "prompt": "hello", "agent": "scripted", "approve": "ask",
			"merge": "keep", "limits": "maxTokens=9", "set": "a.agent=b",
			"worktree": s.home, "check": true}
	case "demo":
		s.srv.cfg.Demo = &Demo{}
	default:
		s.t.Fatalf("there is no example for %s", path)
	}
	return fill(path, row, gateID), body
}

// TestDocument compares docs/http-api.md with the table of routes.
func TestDocument(t *testing.T) {
	data, err := os.ReadFile("../../../docs/http-api.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for l := range strings.Lines(string(data)) {
		if strings.HasPrefix(l, "| `GET /") || strings.HasPrefix(l, "| `POST /") {
			rows++
		}
	}
	routes := New(Config{}).routes()
	for _, r := range routes {
		row := "| `" + r.Method + " " + strings.TrimSuffix(r.Path, "{$}") + "` | " + r.About + " | "
		_, rest, ok := strings.Cut(string(data), row)
		line, _, _ := strings.Cut(rest, "\n")
		if !ok {
			t.Errorf("docs/http-api.md has no row %s", row)
		}
		for _, f := range append(r.Query, r.Body...) {
			if !strings.Contains(line, "`"+f.Name+"`") {
				t.Errorf("docs/http-api.md: %s takes %s", row, f.Name)
			}
		}
	}
	if rows != len(routes) {
		t.Errorf("docs/http-api.md has %d routes, there are %d", rows, len(routes))
	}
}

// TestText checks that pages show what agents said, and only that.
func TestText(t *testing.T) {
	for text, want := range map[string]string{`{"a":[1,2]}`: "{\n  \"a\": [\n    1,\n    2\n  ]\n}", "text": "text",
		"{not": "{not", "[x](y)": "[x](y)"} {
		if got := pretty(text); got != want {
			t.Errorf("%q is set out as %q", text, got)
		}
	}
	if got := visible("a\r\nb\u202ec\x1b[31m\u0085\u2066"); got != "a\nb\\u202ec\\x1b[31m\\x85\\u2066" {
		t.Errorf("%q hides something", got)
	}
	h := newHouse(t, map[string]scripted{"plan": say(`{"$status":"ready","what":"x\u202ey","deep":{"a":1}}`),
		"work": say(`{"$status":"done"}`)})
	row := h.run(gated, "a title \u202ewith\x1b[31m <b>")
	s := h.open("")
	for _, path := range []string{"/", "/tasks", "/tasks/" + row.ID, "/threads/" + row.ID, "/steps/" + row.Head.String(),
		"/tasks/" + row.ID + "?tab=events"} {
		if res := s.get(path); strings.ContainsAny(res.body, "\u202e\x1b") || strings.Contains(res.body, "<b>") {
			t.Errorf("%s hides something", path)
		}
	}
	if res := s.get("/tasks/" + row.ID + "?tab=events"); strings.Contains(res.body, "{&#34;") ||
		!strings.Contains(res.body, "needs you: ") {
		t.Errorf("what happened is not told in sentences:\n%s", res.body)
	}
	if res := s.get("/threads/" + row.ID); !strings.Contains(res.body, "10 in, 2 out") {
		t.Errorf("the thread's page does not say what it used")
	}
}
