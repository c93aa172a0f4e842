package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// copied makes a copy of a task's directory, without anything else from its house.
func (h *house) copied(row store.Thread) string {
	h.t.Helper()
	board := &taskdir.DirWriter{Store: h.store, Reader: h.controller().Reader()}
	if err := board.Draw(h.t.Context(), row.ID, false); err != nil {
		h.t.Fatal(err)
	}
	dir := h.t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(taskdir.At(h.dir, row.ID).Path())); err != nil {
		h.t.Fatal(err)
	}
	return dir
}

// openCopy serves a directory without a store.
func (h *house) openCopy(dir string) *site {
	h.t.Helper()
	c, err := taskdir.OpenCopy(dir)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	bare := *h
	bare.home = ""
	return bare.serve("", NewCopy(CopyConfig{Copy: c}))
}

const index = `[{"id":"work.cmd-1","kind":"command-execution","title":"go test","by":"work","createdAt":5,
  "sources":[{"command":["go test ./..."],"cwd":"api","exitCode":1}]},
 {"id":"work.a-2","kind":"file-anchor","title":"the lines","by":"work","sources":[{"path":"a/b.go","startLine":3,"endLine":9,"hash":"` + "%064x" + `"}]}]`

func TestCopyPages(t *testing.T) {
	h := newHouse(t, gatedAgents())
	dir := h.copied(h.run(gated, "do the thing"))
	h.write(filepath.Join(dir, "shared/reports/report.md"),
		"---\nx: 1\n---\n\n# Found\n\nSee evidence:work.cmd-1 and evidence:none.x-1. <b>bold</b>")
	h.write(filepath.Join(dir, "shared/reports/a #1?%.json"), `{"a":[1]}`)
	h.write(filepath.Join(dir, "shared/reports/picture.svg"), "<svg onload=alert(1)>")
	h.write(filepath.Join(dir, "shared/reports/picture.png"), "\x89PNG\x00")
	h.write(filepath.Join(dir, "shared/reports/long.txt"), strings.Repeat("é", shownText))
	h.write(filepath.Join(dir, "shared/evidence/index.json"), fmt.Sprintf(index, 7))
	s := h.openCopy(dir)
	for _, tt := range []struct{ path, want string }{
		{"/", "do the thing"}, {"/", "needs you"}, {"/", "copy of a task"}, {"/reports", "/read/shared/reports/report.md"},
		{"/reports", "state board"}, {"/reports", "notes of people"},
		{"/reports", "/read/shared/reports/a%20%231%3F%25.json"},
		{"/read/shared/reports/a%20%231%3F%25.json", "  &#34;a&#34;: ["},
		{"/read/shared/reports/report.md", "<h2>Found</h2>"},
		{"/read/shared/reports/report.md", `<a href="/evidence#work.cmd-1">evidence:work.cmd-1</a>`},
		{"/read/shared/reports/report.md", "evidence:none.x-1 (not there)"},
		{"/read/shared/reports/report.md", "&lt;b&gt;bold"}, {"/read/shared/reports/report.md", "<pre>x: 1</pre>"},
		{"/read/shared/reports/picture.svg", "<pre>&lt;svg onload"},
		{"/read/shared/reports/picture.png", "This file is not text"}, {"/read/shared/reports/long.txt", "There is more"},
		{"/evidence", "A command was run in api and ended with exit code 1"}, {"/evidence", "go test ./..."},
		{"/evidence", "The file a/b.go, lines 3 to 9"}, {"/evidence", "not checkable"},
		{"/events", "gate.blocked"}, {"/events?from=-100000", "task.created"}, {"/sessions", "/sessions/plan"},
		{"/sessions/plan", "scripted"}, {"/sessions/plan", "the thing"},
	} {
		if res := s.get(tt.path); res.code != http.StatusOK || !strings.Contains(res.body, tt.want) ||
			strings.Contains(res.body, "data-follow") || strings.Contains(res.body, "data-api") {
			t.Errorf("%s: %d, without %q\n%s", tt.path, res.code, tt.want, res.body[:min(len(res.body), 4000)])
		}
	}
	for path, want := range map[string]int{
		"/sessions/nobody": 404, "/events?from=x": 400, "/tasks": 404, "/api/v1/tasks": 404, "/api/v1/openapi.json": 404,
		"/read/task.yaml": 404, "/read/shared/reports/no.md": 404,
		"/files/shared/reports/no.md": 404, "/read/agents/plan/secret.json": 404, "/read/agents/plan/session.json": 200,
		"/files/shared/reports/report.md": 200,
	} {
		if res := s.get(path); res.code != want {
			t.Errorf("%s: %d, want %d", path, res.code, want)
		}
	}
	for _, r := range s.srv.copyRoutes() {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s changes something", r.Method, r.Path)
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			if res := s.do(method, strings.NewReplacer("{$}", "", "{id}", "plan", "{path...}", "x", "{file}",
				"plait.js").Replace(r.Path), http.Header{"Content-Type": {"application/json"}},
				[]byte("{}")); res.code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, r.Path, res.code)
			}
		}
	}
}

// TestCopyKnown checks that a copy cannot be seen without the cookie.
func TestCopyKnown(t *testing.T) {
	h := newHouse(t, gatedAgents())
	s := h.openCopy(h.copied(h.run(gated, "do it")))
	_, port, _ := net.SplitHostPort(s.host)
	for _, r := range s.srv.copyRoutes() {
		target := strings.NewReplacer("{$}", "", "{id}", "plan", "{path...}", "shared/human-notes.md", "{file}",
			"plait.js").Replace(r.Path)
		for cookie, want := range map[string]int{"plait-" + port + "=x": http.StatusUnauthorized, s.cookie(): http.StatusOK} {
			if code, _ := s.raw("GET " + target + " HTTP/1.1\r\nHost: " + s.host + "\r\nCookie: " + cookie +
				"\r\nConnection: close\r\n\r\n"); code != want {
				t.Errorf("%s: %d, want %d", target, code, want)
			}
		}
	}
}

// TestCopyHostile shows directories that were made to deceive.
func TestCopyHostile(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	outside := filepath.Join(t.TempDir(), "secret")
	h.write(outside, canary)
	files := []string{"task.yaml", "events.jsonl", "shared/evidence/index.json", "agents/plan/session.json",
		"shared/reports/r.md", "shared/human-notes.md"}
	for name, plant := range map[string]func(string) error{
		"missing":   os.Remove,
		"link":      func(f string) error { return os.Symlink(outside, f) },
		"hard link": func(f string) error { return os.Link(outside, f) },
		"pipe":      func(f string) error { return syscall.Mkfifo(f, 0o644) },
		"directory": func(f string) error { return os.Mkdir(f, 0o755) },
		"huge":      func(f string) error { return os.Truncate(f, 1<<40) },
		"broken":    func(f string) error { return os.WriteFile(f, []byte("{\xff\x00"), 0o644) },
		"deep":      func(f string) error { return os.WriteFile(f, []byte(strings.Repeat("[", 1<<20)), 0o644) },
		"nulls":     func(f string) error { return os.WriteFile(f, []byte(`[null,{"sources":[{},null]}]`), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := h.copied(row)
			h.write(filepath.Join(dir, "shared/reports/r.md"), "# R")
			s := h.openCopy(dir)
			for _, f := range files {
				f = filepath.Join(dir, f)
				if name != "huge" && name != "missing" {
					os.Remove(f)
				}
				if err := plant(f); err != nil {
					t.Fatal(err)
				}
			}
			for _, path := range []string{"/", "/reports", "/evidence", "/events", "/events?from=-1000", "/sessions",
				"/sessions/plan", "/read/shared/reports/r.md", "/read/shared/human-notes.md", "/files/shared/reports/none"} {
				if strings.HasPrefix(path, "/sessions/") && name == "missing" {
					continue
				}
				res := s.get(path)
				if res.code != http.StatusOK && res.code != http.StatusNotFound || strings.Contains(res.body, canary) ||
					len(res.body) > 8<<20 {
					t.Errorf("%s: %d, %d bytes", path, res.code, len(res.body))
				}
				if path == "/" && (res.code != http.StatusOK || name != "huge" && name != "nulls" &&
					!strings.Contains(res.body, "read task.yaml")) {
					t.Errorf("what is wrong is not said: %d\n%s", res.code, res.body)
				}
			}
		})
	}
}

// hostileCopy writes a directory that has every payload in every field. Fields that occur
// only once have all payloads.
func (h *house) hostileCopy() string {
	h.t.Helper()
	s := spray{part: payloads(h.t)}
	v := view.Task{ID: s.all("id"), Title: s.all("title"), State: s.all("state"), Flow: s.all("flow"),
		Reason:     &view.Reason{Kind: store.ReasonKind(s.all("kind")), Message: s.all("why")},
		Controller: &view.Controller{State: s.all("stands"), Goal: s.all("goal")}}
	var entries []map[string]any
	var events strings.Builder
	for i := range s.part {
		p := func(field string) string { return s.each(field)[i] }
		v.Roster = append(v.Roster, view.Member{Instance: p("rname"), State: store.Status(p("rstate")), Title: p("rtitle"),
			Agent: p("ragent")})
		v.Milestones = append(v.Milestones, view.Milestone{ID: p("mid"), Title: p("mtitle"),
			State: view.MilestoneState(p("mstate")), DependsOn: []string{p("mafter")}})
		v.Gates = append(v.Gates, view.Gate{ID: p("gid"), Question: p("gasks"), State: store.GateState(p("gstate")),
			By: p("gby")})
		v.Threads = append(v.Threads, view.TaskThread{ID: p("x") + "_", Label: p("tlabel"),
			Kind: store.ThreadKind(p("tkind")), Flow: p("tflow"), Status: store.Status(p("tstate"))})
		entries = append(entries, map[string]any{"id": p("eid"), "kind": p("ekind"), "title": p("etitle"),
			"summary": p("esum"), "by": p("eby"), "broken": p("ebad"), "sources": []any{
				map[string]any{"command": []string{p("ecmd")}, "cwd": p("ecwd"), "exitCode": 1},
				map[string]any{"path": p("epath"), "startLine": 1, "endLine": 2}, map[string]any{"path": p("eother")}}})
		fmt.Fprintf(&events, "%s\n%s\n",
			mustJSON(map[string]any{"type": p("vtype"), "instance": p("vwho"), "payload": p("vload")}),
			mustJSON(map[string]any{"type": "agent.item", "instance": "work", "payload": map[string]any{"items": []any{
				map[string]any{"kind": p("ikind"), "phase": p("iphase"), "text": p("itext"), "output": p("iout")},
				map[string]any{"kind": "file",
					"files": []any{map[string]any{"path": p("ipath"), "change": p("ichg"), "diff": "+" + p("idiff")}}}}}}))
	}
	text, err := taskdir.YAML(v)
	if err != nil {
		h.t.Fatal(err)
	}
	dir := h.t.TempDir()
	for name, text := range map[string]string{
		"task.yaml": string(text), "events.jsonl": events.String(), "shared/evidence/index.json": string(mustJSON(entries)),
		"shared/reports/r.md":   strings.ReplaceAll(s.all("md"), "\x00", ""),
		"shared/reports/r.txt":  strings.ReplaceAll(s.all("txt"), "\x00", ""),
		"shared/reports/r.json": string(mustJSON(s.each("json"))),
		"agents/work/session.json": string(mustJSON(map[string]any{"adapter": s.all("adapter"), "cwd": s.all("cwd"),
			"sandbox": s.all("sandbox"), "vendorSession": s.all("vendor"), "threadId": s.all("thread")})),
	} {
		h.write(filepath.Join(dir, name), text)
	}
	for _, name := range s.names("name") {
		h.write(filepath.Join(dir, "shared/decisions", name), "x")
	}
	return dir
}

// everything returns the paths of all pages of a copy, with all parts of its events.
func (s *site) everything(papers ...string) (paths []string) {
	s.t.Helper()
	paths = []string{"/", "/reports", "/evidence", "/sessions", "/events?from=-65536"}
	for _, p := range papers {
		paths = append(paths, "/read/"+p)
	}
	for _, at := range []string{"/events", "/sessions/work"} {
		for next, more := "?from=0", true; more; next, _, _ = strings.Cut(next, `"`) {
			paths = append(paths, at+next)
			_, next, more = strings.Cut(s.get(at+next).body, `rel="next" href="`)
		}
	}
	return paths
}

// TestHostileCopy shows copies in a real browser: one made of payloads, and one of a task in
// which every payload was said.
func TestHostileCopy(t *testing.T) {
	t.Parallel()
	s := spray{part: payloads(t)}
	h := newHouse(t, map[string]scripted{"work": func(_ context.Context, req agent.Request,
		emit func(agent.Event) error) (agent.Result, error) {
		return s.work(req, emit)
	}})
	seen := shown{}
	b := h.openCopy(h.hostileCopy()).browse()
	b.harmless(seen, b.everything("shared/reports/r.md", "shared/reports/r.txt", "shared/reports/r.json")...)
	b.silent()
	if lacks := seen.lacks(t, "id", "title", "state", "flow", "why", "stands", "goal", "rname", "rstate", "rtitle", "ragent",
		"mid", "mtitle", "mstate", "mafter", "gid", "gasks", "gstate", "gby", "tlabel", "tkind", "tflow", "tstate",
		"eid", "ekind", "etitle", "esum", "eby", "ebad", "ecmd", "ecwd", "epath", "eother", "vtype", "vwho", "ikind",
		"iphase", "itext", "iout", "ipath", "ichg", "idiff",
		"md", "txt", "json", "adapter", "cwd", "sandbox", "vendor", "thread", "name"); len(lacks) > 0 {
		t.Errorf("not shown: %.3000q", lacks)
	}
	row := h.run(hostileFlow, s.said("asked"))
	dir := h.copied(row)
	h.write(filepath.Join(dir, "shared/reports/r.md"), strings.ReplaceAll(s.all("rep"), "\x00", ""))
	c, seen := h.openCopy(dir).browse(), shown{}
	c.harmless(seen, c.everything("shared/reports/r.md", "shared/state-board.md", "shared/human-notes.md")...)
	c.silent()
	if lacks := seen.lacks(t, "asks", "msg", "tht", "cmd", "outcmd", "tool", "outtool", "file", "chgfile", "addfile",
		"delfile", "err", "plan", "rep"); len(lacks) > 0 {
		t.Errorf("not shown: %.3000q", lacks)
	}
}

// TestCopyBrowser opens the copy of a real task, and one with payloads, in Chromium.
func TestCopyBrowser(t *testing.T) {
	h := newHouse(t, gatedAgents())
	dir := h.copied(h.run(gated, "do the thing"))
	h.write(filepath.Join(dir, "shared/reports/report.md"), "# Found\n\nevidence:work.cmd-1")
	h.write(filepath.Join(dir, "shared/evidence/index.json"), fmt.Sprintf(index, 7))
	b := h.openCopy(dir).browse()
	b.visit("/")
	b.shows("do the thing")
	b.visit("/reports")
	b.visit(js[string](b, `[...document.querySelectorAll("main a")].find((a) => a.innerText.endsWith("report.md")).getAttribute("href")`))
	b.shows("Found")
	b.visit(js[string](b, `document.querySelector(".prose a").getAttribute("href")`))
	b.shows("ended with exit code 1")
	b.visit("/sessions/plan")
	b.shows("the thing")
	if len(b.said) > 0 {
		t.Errorf("%v", b.said)
	}
}
