package attempt

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/secret"
)

const held = "sk-VERYSECRET"

func discreet(t *testing.T, req agent.Request) (agent.Request, *discretion, *[]agent.Event) {
	t.Helper()
	e := &Runner{cfg: Config{Host: Host{Secrets: &secret.Set{}}}}
	e.cfg.Host.Secrets.Add(held)
	var events []agent.Event
	req, d := e.discreet(req, func(ev agent.Event) error { events = append(events, ev); return nil })
	return req, d, &events
}

// TestDiscreetEvents has an agent say a key in pieces, and in every field of an event.
func TestDiscreetEvents(t *testing.T) {
	_, d, events := discreet(t, agent.Request{})
	for _, ev := range []agent.Event{
		{Kind: agent.EventMessage, ID: "1", Phase: "updated", Text: "it is sk-VERY"},
		{Kind: agent.EventCommand, ID: "1", Phase: "updated", Output: "sk-VE"},
		{Kind: agent.EventMessage, ID: "1", Phase: "updated", Text: "SECRET; less"},
		{Kind: agent.EventCommand, ID: "1", Phase: "updated", Output: "RYSECRET, sk"},
		{Kind: agent.EventMessage, ID: "1", Phase: "completed", Text: "it is sk-VERYSECRET; less"},
		{Kind: agent.EventTool, ID: "2", Phase: "completed", Text: held, Output: held, Asked: held,
			Detail: json.RawMessage(`{"key":"` + held + `"}`), Files: []agent.File{{Path: "a/" + held, Diff: "+" + held}}},
		{Kind: agent.EventProgress, Text: "less"},
	} {
		if err := d.emit(ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.end(nil); err != nil {
		t.Fatal(err)
	}
	want := []agent.Event{
		{Kind: agent.EventMessage, ID: "1", Phase: "updated", Text: "it is "},
		{Kind: agent.EventCommand, ID: "1", Phase: "updated"},
		{Kind: agent.EventMessage, ID: "1", Phase: "updated", Text: "***; les"},
		{Kind: agent.EventCommand, ID: "1", Phase: "updated", Output: "***, "},
		{Kind: agent.EventMessage, ID: "1", Phase: "updated", Text: "s"},
		{Kind: agent.EventMessage, ID: "1", Phase: "completed", Text: "it is ***; less"},
		{Kind: agent.EventTool, ID: "2", Phase: "completed", Text: "***", Output: "***", Asked: "***",
			Detail: json.RawMessage(`{"key":"***"}`), Files: []agent.File{{Path: "a/***", Diff: "+***"}}},
		{Kind: agent.EventProgress, Text: "less"},
		{Kind: agent.EventCommand, ID: "1", Phase: "updated", Output: "sk"},
	}
	if diff := cmp.Diff(want, *events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestDiscreetQuestion: people see a question without the key; the agent keeps its own.
func TestDiscreetQuestion(t *testing.T) {
	var seen agent.Question
	req, _, _ := discreet(t, agent.Request{Ask: func(_ context.Context, q agent.Question) (agent.Answer, error) {
		seen = q
		return agent.Answer{Approved: true}, nil
	}})
	asked := agent.Question{Text: "use " + held + "?", Action: agent.Action{Type: "command", Command: "curl -H " + held,
		Params: json.RawMessage(`{"h":"` + held + `"}`)}}
	if a, err := req.Ask(t.Context(), asked); err != nil || !a.Approved || a.Edited != nil {
		t.Errorf("answer %+v, %v", a, err)
	}
	want := agent.Question{Text: "use ***?", Action: agent.Action{Type: "command", Command: "curl -H ***",
		Params: json.RawMessage(`{"h":"***"}`)}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}
	if !strings.Contains(asked.Action.Command, held) {
		t.Error("the agent's own action was changed")
	}
}

// TestDiscreetFiles replaces a key in what an agent left, and nothing else.
func TestDiscreetFiles(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	for name, text := range map[string]string{
		filepath.Join(dir, "said.sh"): "echo " + held + "\n", filepath.Join(dir, "other"): "nothing\n", outside: held,
	} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	_, d, _ := discreet(t, agent.Request{})
	if err := d.end(root); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		filepath.Join(dir, "said.sh"): "echo ***\n", filepath.Join(dir, "other"): "nothing\n", outside: held,
	} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "said.sh")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestDiscreetAnswer: the fields and the text of an answer, whose front matter would not be YAML with *** in it.
func TestDiscreetAnswer(t *testing.T) {
	e := &Runner{cfg: Config{Host: Host{Secrets: &secret.Set{}}}}
	e.cfg.Host.Secrets.Add(held)
	ans, err := parse(agent.Result{Output: []byte("---\n$status: done\nkey: " + held + "\n---\nIt is " + held)}, 0, false)
	if err == nil {
		ans, err = e.discreetAnswer(ans)
	}
	if err != nil {
		t.Fatal(err)
	}
	if string(ans.meta) != `{"$status":"done","key":"***"}` || ans.fields["key"] != "***" || ans.text != "It is ***" {
		t.Errorf("%s, %v, %q", ans.meta, ans.fields, ans.text)
	}
}
