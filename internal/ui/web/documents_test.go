package web

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// TestReading follows a citation from a report to the output of a command.
func TestReading(t *testing.T) {
	one := 1
	agents := gatedAgents()
	agents["plan"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if err := emit(agent.Event{Kind: agent.EventCommand, ID: "c", Phase: "completed", Text: "make check",
			Output: strings.Repeat("<b>no</b>\n", shownKept/8), Exit: &one}); err != nil {
			return agent.Result{}, err
		}
		return housetest.Answer(req, emit, `{"$status":"ready","what":"the thing"}`)
	}
	h := newHouse(t, agents)
	row := h.run(gated, "do it")
	entries, err := (&taskdir.DirWriter{Store: h.store, Reader: h.controller().Reader()}).Evidence(t.Context(), row.ID)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%+v: %v", entries, err)
	}
	dir := taskdir.At(h.dir, row.ID).Path()
	id := entries[0].ID
	h.write(filepath.Join(dir, "shared/reports/a.md"), "# A\n\nevidence:"+id+", evidence:nobody.x-1")
	h.write(filepath.Join(dir, "agents/plan/artifacts/mine.md"), "evidence:"+strings.TrimPrefix(id, "plan."))
	h.write(filepath.Join(dir, "agents/plan/artifacts/deep/x.png"), "\x89PNG\r\n\x00")
	log := strings.Repeat("a line of the log\n", shownText/16) + "<b>no last line</b>\n"
	h.write(filepath.Join(dir, "agents/plan/runtime/stderr.log"), log)
	s := h.open("")
	at := "/tasks/" + row.ID
	link := `<a href="` + at + `?tab=evidence#` + id + `">evidence:`
	for path, wants := range map[string][]string{
		at + "?tab=reports": {at + "/read/shared/reports/a.md", at + "/files/shared/reports/a.md",
			at + "/read/agents/plan/artifacts/deep/x.png", "state board", "notes of people"},
		at + "?tab=evidence": {`id="` + id + `"`, "A command was run", "exit code 1", "make check",
			"<summary>what it printed</summary><pre>&lt;b&gt;no", "There is more", "not checkable"},
		at + "/read/shared/reports/a.md":              {"<h2>A</h2>", link + id, "evidence:nobody.x-1 (not there)"},
		at + "/read/agents/plan/artifacts/mine.md":    {link},
		at + "/read/agents/plan/artifacts/deep/x.png": {"This file is not text"},
		at + "/read/shared/state-board.md":            {"<table>"},
		at + "?tab=sessions": {at + "/read/agents/plan/session.json", at + "/read/agents/plan/step.json",
			at + "/read/agents/plan/artifacts/final.json", at + "/read/agents/plan/runtime/events.jsonl", "scripted"},
		at + "/read/agents/plan/session.json":       {"vendorSession"},
		at + "/read/agents/plan/step.json":          {"transcript"},
		at + "/read/agents/plan/runtime/stderr.log": {"This is its end", "&lt;b&gt;no last line"},
	} {
		res := s.get(path)
		for _, want := range wants {
			if res.code != http.StatusOK || !strings.Contains(res.body, want) || strings.Contains(res.body, "<b>no") {
				t.Errorf("%s: %d, without %q:\n%s", path, res.code, want, res.body[:min(len(res.body), 3000)])
			}
		}
	}
	for _, path := range []string{"/read/task.yaml", "/read/events.jsonl", "/read/shared/secret",
		"/read/agents/plan/secret.json", "/read/agents/plan/context/x", "/read/shared/reports/none.md",
		"/read/shared/reports/%2e%2e/x", "?tab=files"} {
		if res := s.get(at + path); res.code == http.StatusOK {
			t.Errorf("%s is shown", path)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if res := s.get(at + "?tab=reports"); res.code != http.StatusOK ||
		!strings.Contains(res.body, "There are no reports") {
		t.Errorf("without the directory: %d", res.code)
	}
	if res := s.get(at + "/read/shared/reports/a.md"); res.code != http.StatusNotFound {
		t.Errorf("without the directory: %d", res.code)
	}
}

// FuzzFrontMatter checks that no part of a text is lost.
func FuzzFrontMatter(f *testing.F) {
	f.Add("---\na: 1\n---\nb")
	f.Add("---\r\n---\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		head, rest, ok := frontMatter(text)
		if plain := strings.ReplaceAll(text, "\r\n", "\n"); ok && "---\n"+head+"\n---\n"+rest != plain {
			t.Errorf("%q is %q and %q", text, head, rest)
		}
	})
}

// TestReadingAToolCall checks that the page has the lines of the transcript and the artifact that the call names.
func TestReadingAToolCall(t *testing.T) {
	agents := gatedAgents()
	agents["plan"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if _, err := req.Desk.Raw.Write([]byte("before\n<b>asked</b>\n<b>answered</b>\nafterwards\n")); err != nil {
			return agent.Result{}, err
		}
		if err := os.WriteFile(filepath.Join(req.Desk.Artifacts, "r&d.md"), []byte("x"), 0o644); err != nil {
			return agent.Result{}, err
		}
		for _, ev := range []agent.Event{{Phase: "started", Line: 2}, {Phase: "completed", Line: 3}} {
			ev.Kind, ev.ID, ev.Text = agent.EventTool, "c", "lab/echo"
			ev.Detail = []byte(`{"file":"$PLAIT_ARTIFACTS/r&d.md"}`)
			if err := emit(ev); err != nil {
				return agent.Result{}, err
			}
		}
		return agent.Result{Output: []byte(`{"$status":"ready","what":"the thing"}`)}, nil
	}
	h := newHouse(t, agents)
	row := h.run(gated, "do it")
	res := h.open("").get("/tasks/" + row.ID + "?tab=evidence")
	for _, want := range []string{
		`id="plan.tool-1"`, "A tool was called: the transcript, lines 2 to 3", ">fresh<",
		"<summary>the events</summary><pre>&lt;b&gt;asked&lt;/b&gt;\n&lt;b&gt;answered&lt;/b&gt;\n</pre>", ">r&amp;d.md</a>",
	} {
		if !strings.Contains(res.body, want) {
			t.Errorf("without %q:\n%s", want, res.body[:min(len(res.body), 5000)])
		}
	}
	if strings.Contains(res.body, "afterwards") {
		t.Error("it shows more than the lines")
	}
}

// TestReadingAFileOfAWorktree checks files of evidence where its agent worked, which is not the workspace.
func TestReadingAFileOfAWorktree(t *testing.T) {
	h := newHouse(t, map[string]scripted{"plan": say(`{"$status":"ready","what":"the thing","evidence":[{"id":"e",` +
		`"kind":"file-anchor","title":"a note","path":"src/notes.md","startLine":1,"endLine":1}]}`)})
	tree := t.TempDir()
	h.write(filepath.Join(tree, "src/notes.md"), "a note\n")
	def := housetest.Flow(t, gated)
	c := h.controller()
	row, err := c.Begin(t.Context(), control.Spec{Prompt: "do it", Workspace: h.dir, Tree: tree,
		Bundle: thread.Bundle{Name: def.Name, Flows: map[string]json.RawMessage{def.Name: mustJSON(def)}}})
	if err == nil {
		_, err = c.Drive(t.Context(), row.ID, control.Resume{})
	}
	if err != nil {
		t.Fatal(err)
	}
	s := h.open("")
	for _, want := range []string{">fresh<", ">gone<"} {
		res := s.get("/tasks/" + row.ID + "?tab=evidence")
		if !strings.Contains(res.body, "The file src/notes.md, line 1") || !strings.Contains(res.body, want) {
			t.Errorf("without %q:\n%s", want, res.body[:min(len(res.body), 5000)])
		}
		if err := os.RemoveAll(filepath.Join(tree, "src")); err != nil {
			t.Fatal(err)
		}
	}
}
