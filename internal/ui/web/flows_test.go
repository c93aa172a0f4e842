package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// begun starts a task with the given body and returns its id.
func (s *site) begun(body string) string {
	s.t.Helper()
	res := s.post("/api/v1/tasks", body)
	_, rest, ok := strings.Cut(res.body, `"task":"`)
	if res.code != http.StatusOK || !ok || !strings.Contains(res.body, `"schema":"plait.run/1"`) {
		s.t.Fatalf("%s: %d %s", body, res.code, res.body)
	}
	return rest[:26]
}

func (h *house) flowFile(name, text string) {
	h.t.Helper()
	file := filepath.Join(h.dir, ".plait", "flows", name+".yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

func TestBegin(t *testing.T) {
	h := newHouse(t, map[string]scripted{"solo": say("---\n$status: done\n---\nIt is done."),
		"work": say("---\n$status: done\n---\nThe same.")})
	h.flowFile("local", replaceOnce(chatty, "name: chatty", "name: local"))
	s := h.open("")
	for _, body := range []string{`{"flow":"solo","prompt":"do it"}`,
		`{"flow":"solo","prompt":"do it","agent":"scripted"}`, `{"flow":"local","prompt":"do it"}`} {
		row := h.ends(s.begun(body), store.Completed)
		if row.Workspace != h.dir || row.Kind != store.KindRoot {
			t.Errorf("%s began %+v", body, row)
		}
	}
	if _, err := os.Stat(filepath.Join(h.dir, ".plait", ".gitignore")); err != nil {
		t.Errorf("the workspace is not made: %v", err)
	}
	row := h.ends(s.begun(`{"flow":"solo","prompt":"with","agent":"scripted"}`), store.Completed)
	if !strings.Contains(string(row.Options), `"agent":"scripted"`) || strings.Contains(string(row.Options), "offline") {
		t.Errorf("it was begun with %s", row.Options)
	}
	h.offline = func(flow string) string { return "as-" + flow }
	s = h.open("")
	if row := h.ends(s.begun(`{"flow":"solo","prompt":"off"}`), store.Completed); !strings.Contains(string(row.Options),
		`"offline":"as-solo"`) {
		t.Errorf("it was begun with %s", row.Options)
	}
}

func TestBeginRefused(t *testing.T) {
	h := newHouse(t, nil)
	h.flowFile("broken", "version: 1\nname: [")
	h.flowFile("programs", replaceOnce(replaceOnce(chatty, "name: chatty", "name: programs"), "{description: works}",
		"{description: works, agent: {kind: command, command: [make]}}"))
	var asked []string
	h.consent = func(f control.Found) error {
		asked = append(asked, f.Bundle.Name)
		if len(f.Files) > 0 {
			return errors.New("plait run programs --trust")
		}
		return nil
	}
	s := h.open("")
	_, before := h.store.counts()
	for _, tt := range []struct {
		name, body string
		code       int
		says       string
	}{
		{"unknown flow", `{"flow":"nobody","prompt":"x"}`, 404, `no flow \"nobody\"`},
		{"no flow", `{"prompt":"x"}`, 400, "flow is missing"},
		{"no prompt", `{"flow":"solo"}`, 400, "the prompt is empty"},
		{"empty prompt", `{"flow":"solo","prompt":" \n"}`, 400, "the prompt is empty"},
		{"unknown agent", `{"flow":"solo","prompt":"x","agent":"nobody"}`, 400, `no agent is called \"nobody\"`},
		{"a path", `{"flow":".plait/flows/programs.yaml","prompt":"x"}`, 404, "no flow"},
		{"a file", `{"flow":"programs.yaml","prompt":"x"}`, 404, "no flow"},
		{"upward", `{"flow":"../x","prompt":"x"}`, 404, "no flow"},
		{"broken", `{"flow":"broken","prompt":"x"}`, 409, "broken.yaml"},
		{"not agreed", `{"flow":"programs","prompt":"x"}`, 409, "--trust"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if res := s.post("/api/v1/tasks", tt.body); res.code != tt.code || !strings.Contains(res.body, tt.says) {
				t.Errorf("%d %s", res.code, res.body)
			}
		})
	}
	if _, after := h.store.counts(); after != before {
		t.Errorf("%d batches were committed", after-before)
	}
	if diff := cmp.Diff([]string{"solo", "programs"}, asked); diff != "" {
		t.Errorf("consent: -want +asked\n%s", diff)
	}
	h.only = true
	s = h.open("")
	if res := s.post("/api/v1/tasks", `{"flow":"solo","prompt":"x"}`); res.code != http.StatusForbidden {
		t.Errorf("a server that only shows begins: %d", res.code)
	}
	if res := s.get("/flows/solo"); res.code != http.StatusOK || strings.Contains(res.body, "data-api=") {
		t.Errorf("a server that only shows has a form: %d", res.code)
	}
}

func TestFlowObjects(t *testing.T) {
	h := newHouse(t, nil)
	h.flowFile("local", replaceOnce(gated, "name: gated", "name: local"))
	s := h.open("")
	c := h.controller()
	book := &view.Reader{Store: h.store, Nodes: c.Reader(), Workspace: h.dir}
	for _, name := range []string{"solo", "orchestrate", "local", "kept"} {
		if name == "kept" {
			f, err := c.Find(t.Context(), h.dir, "local")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Register(t.Context(), name, f); err != nil {
				t.Fatal(err)
			}
		}
		f, err := c.Find(t.Context(), h.dir, name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := book.Flow(t.Context(), name, f.Bundle, f.Object.Hash)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plain(t, v), s.data("/api/v1/flows/"+name)); diff != "" {
			t.Errorf("%s: -view +API\n%s", name, diff)
		}
		graphs, err := view.BundleGraphs(f.Bundle)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plain(t, map[string]any{"graphs": graphs}), s.data("/api/v1/flows/"+name+"/graph")); diff != "" {
			t.Errorf("%s: -view +API\n%s", name, diff)
		}
		if res := s.get("/flows"); !strings.Contains(res.body, `href="/flows/`+name+`"`) {
			t.Errorf("the list has no %s", name)
		}
		if res := s.get("/flows/" + f.Object.Hash.String()); (res.code == http.StatusOK) != (name == "kept") {
			t.Errorf("%s by its hash: %d", name, res.code)
		}
	}
	for _, name := range []string{"nobody", "..%2F..%2Fetc%2Fpasswd", "local.yaml", "%00", ".plait", "%E2%80%AElocal"} {
		for _, path := range []string{"/flows/", "/api/v1/flows/"} {
			if res := s.get(path + name); res.code != http.StatusNotFound {
				t.Errorf("%s%s: %d %s", path, name, res.code, res.body)
			}
		}
	}
}

// TestFlowPage runs a flow from its page in a real browser.
func TestFlowPage(t *testing.T) {
	h := newHouse(t, map[string]scripted{"work": say("---\n$status: done\n---\nIt is done.")})
	h.flowFile("local", replaceOnce(chatty, "name: chatty", "name: local"))
	// What a file says is text; nothing of it becomes markup.
	const evil = `x<img src=x onerror=alert(1)></title></svg><script>alert(1)</script>`
	text, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	h.flowFile("hostile", fmt.Sprintf(`
version: 1
name: hostile
description: %[1]s
roles: {work: {description: %[1]s, goal: %[1]s, agent: {kind: command, command: [%[1]s]}}}
gates: {ask: {kind: input, question: %[1]s}}
graph:
  $START: {new: {role: work, prompt: "go"}}
  work: {%[1]s: {role: ask}, done: {role: $END, prompt: over}}
  ask: {answered: {role: work, prompt: %[1]s}}
`, text))
	b := h.open("").browse()
	b.visit("/flows/hostile")
	if n := js[int](b, `document.querySelectorAll("svg.graph g.node").length`); n != 4 {
		t.Errorf("the graph has %d nodes", n)
	}
	if n := js[int](b, `document.querySelectorAll("main img, main script, main [style]").length`); n != 0 {
		t.Errorf("%d elements are somebody else's", n)
	}
	if text := js[string](b, `document.querySelector("svg.graph").textContent`); !strings.Contains(text, evil) {
		t.Errorf("the graph says %q", text)
	}
	b.visit("/")
	b.do(chromedp.KeyEvent("g"), chromedp.KeyEvent("f"), chromedp.WaitVisible(chromedp.CSS(`a[href="/flows/local"]`)))
	b.visit("/flows/local")
	if stroke := js[string](b, `getComputedStyle(document.querySelector("svg.graph rect")).stroke`); stroke == "none" ||
		stroke == "" {
		t.Error("boxes are not drawn")
	}
	b.do(chromedp.SetValue(chromedp.CSS("textarea"), "do it"), chromedp.Click(chromedp.CSS("#run button")))
	b.shows("lane")
	b.shows("Result")
	id := strings.TrimPrefix(js[string](b, "location.pathname"), "/tasks/")
	h.ends(id, store.Completed)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.said) > 0 {
		t.Errorf("%q", b.said)
	}
}
