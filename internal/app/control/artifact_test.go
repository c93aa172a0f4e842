package control

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// leaves is an agent that calls leave with its artifacts directory.
func leaves(leave func(dir string) error) scripted {
	return func(_ context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
		if err := leave(req.Desk.Artifacts); err != nil {
			return agent.Result{}, err
		}
		return agent.Result{Output: []byte(status("done"))}, nil
	}
}

// kept returns the artifacts of the first step: name → bytes.
func (h *house) kept(row store.Thread) map[string]string {
	h.t.Helper()
	r := h.controller().Reader()
	s, _, err := r.Find(h.t.Context(), row.Head, "1")
	if err != nil {
		h.t.Fatal(err)
	}
	c, err := r.Content(h.t.Context(), s.State.Content)
	if err != nil {
		h.t.Fatal(err)
	}
	out := map[string]string{}
	for _, ref := range c.Artifacts {
		a, err := r.Artifact(h.t.Context(), ref)
		if err != nil {
			h.t.Fatal(err)
		}
		f, _, err := h.store.Open(h.t.Context(), a.Blob)
		if err != nil {
			h.t.Fatal(err)
		}
		data, err := io.ReadAll(f)
		f.Close()
		if err != nil || int64(len(data)) != a.Size {
			h.t.Fatalf("artifact %s: %d bytes, want %d (%v)", a.Name, len(data), a.Size, err)
		}
		out[a.Name] = string(data)
	}
	return out
}

func TestArtifactsAreKept(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 300<<10)
	h := newHouse(t, map[string]scripted{"work": leaves(func(dir string) error {
		write := func(name, text string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644) }
		if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
			return err
		}
		for _, err := range []error{
			write("report.md", "# R"), write("empty", ""), write("large", large), write("sub/deep.txt", "deep"),
			os.Symlink(secret, filepath.Join(dir, "link")), os.Symlink("/", filepath.Join(dir, "root")),
			os.Link(secret, filepath.Join(dir, "hard")), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})})
	row := h.run(one("write", ""))
	wantStatus(t, row, store.Completed, "")
	want := map[string]string{"report.md": "# R", "empty": "", "large": large, "sub/deep.txt": "deep"}
	if diff := cmp.Diff(want, h.kept(row)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	events, err := h.store.Events(t.Context(), 0, store.EventFilter{Task: row.Task})
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for _, ev := range events {
		if ev.Type == "artifact.written" {
			said += string(ev.Payload)
		}
	}
	for _, name := range []string{"link", "root", "hard", "pipe"} {
		if !strings.Contains(said, name+": ") {
			t.Errorf("nothing says that %s was left out: %s", name, said)
		}
	}
	if pins, err := h.store.Pins(t.Context()); err != nil || len(pins) != 0 {
		t.Errorf("pins are left: %v %v", pins, err)
	}
	var w dag.Walker
	found := false
	err = w.Walk([]dag.Hash{row.Head}, func(x dag.Hash) ([]dag.Hash, error) {
		obj, err := h.store.Get(t.Context(), x)
		if err != nil || obj.Kind != store.Node {
			found = found || string(obj.Data) == "# R"
			return nil, err
		}
		return dag.RefsOf(obj.Data)
	})
	if err != nil || !found {
		t.Errorf("a walk from the head does not reach the artifact's bytes: %v", err)
	}
}

func TestTooManyArtifactsGoBack(t *testing.T) {
	tries := 0
	h := newHouse(t, map[string]scripted{"work": leaves(func(dir string) error {
		n := 65
		if tries++; tries == 2 {
			n = 64 // and the first attempt's are gone
		}
		for i := range n {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644); err != nil {
				return err
			}
		}
		return nil
	})})
	row := h.run(one("write", ""))
	wantStatus(t, row, store.Completed, "")
	if n := len(h.kept(row)); n != 64 || tries != 2 {
		t.Errorf("%d artifacts after %d attempts", n, tries)
	}
}

// TestACorrectedAnswerKeepsItsArtifacts checks that an agent that only repeats its answer, in the session that did
// the work, need not do the work again; one without a session starts over.
func TestACorrectedAnswerKeepsItsArtifacts(t *testing.T) {
	for _, session := range []string{"", "s"} {
		tries := 0
		h := newHouse(t, map[string]scripted{"work": func(_ context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
			tries++
			name := fmt.Sprintf("%d.md", tries)
			out := agent.Result{Output: []byte("no front matter"), Session: session}
			if tries == 2 {
				out.Output = []byte(status("done"))
			}
			return out, os.WriteFile(filepath.Join(req.Desk.Artifacts, name), []byte(name), 0o644)
		}})
		h.wrap = func(a agent.Agent) agent.Agent { return &sessioned{Agent: a} }
		row := h.run(one("write", ""))
		wantStatus(t, row, store.Completed, "")
		want := map[string]string{"2.md": "2.md"}
		if session != "" {
			want["1.md"] = "1.md"
		}
		if diff := cmp.Diff(want, h.kept(row)); diff != "" {
			t.Errorf("session %q: -want +got\n%s", session, diff)
		}
	}
}

// TestNamedArtifacts checks that an action which names files as artifacts that are not there is asked again, and told
// why, and that files and directories count however they are written.
func TestNamedArtifacts(t *testing.T) {
	const first = `"/x/artifacts/found.md", "$PLAIT_ARTIFACTS/more/", "./more/data.json", `
	var told []string
	h := newHouse(t, map[string]scripted{"planner": plans(actions("", act("one", "")), finish)})
	h.agents["one"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		_, fault, _ := strings.Cut(req.Prompt, "could not be used: ")
		told = append(told, fault)
		dir := req.Desk.Artifacts
		names := first + `"report.md"`
		os.MkdirAll(filepath.Join(dir, "more"), 0o755)
		for _, file := range []string{"found.md", "more/data.json"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte("x"), 0o600); err != nil {
				return agent.Result{}, err
			}
		}
		switch len(told) {
		case 2:
			if err := os.Symlink("found.md", filepath.Join(dir, "report.md")); err != nil {
				return agent.Result{}, err
			}
		case 3:
			names = strings.TrimSuffix(first, ", ")
		}
		return say(`{"status": "success", "summary": "Done.", "artifacts": [`+names+`]}`)(ctx, req, emit)
	}
	c := h.controller()
	wantStatus(t, h.drive(c, h.orchestrate(c).ID, Resume{}), store.Completed, "")
	if len(told) != 3 || !strings.HasPrefix(told[1], `artifacts: "report.md" is not in $PLAIT_ARTIFACTS: leave it there`) ||
		!strings.HasPrefix(told[2], `artifacts: "report.md" was not kept: not a regular file`) {
		t.Errorf("told %q", told)
	}
}
