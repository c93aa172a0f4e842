package taskdir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
)

// rowIn is the row of a thread of the task whose directory is d.
func rowIn(d Dir) store.Thread { return store.Thread{ID: d.task, Task: d.task, Workspace: d.workspace} }

func openDesk(d Dir, instance, attempt string, v agent.Vendor) (*Desk, error) {
	k, err := Desks{}.Open(rowIn(d), instance, attempt, v)
	if err != nil {
		return nil, err
	}
	return k.(*Desk), nil
}

func left(d Dir, instance, attempt string, keep func(events, stderr io.Reader) error) error {
	return Desks{}.Left(rowIn(d), instance, attempt, keep)
}

func read(t *testing.T, r io.Reader) string {
	t.Helper()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestLogsGrowAndStretchesTellThemApart(t *testing.T) {
	d := At(t.TempDir(), "01J")
	if err := d.Create(Program{}, false); err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{"first\n", "second, longer\n"} {
		k, err := openDesk(d, "planner", "01J."+string(rune('1'+i)), agent.Vendor{})
		if err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(k.ArtifactsDir()); err != nil || len(left) != 0 {
			t.Errorf("artifacts of the attempt before are left: %v %v", left, err)
		}
		k.Raw.WriteString(text)
		k.Stderr.WriteString("e")
		if err := os.WriteFile(filepath.Join(k.ArtifactsDir(), "f"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		r, n, err := k.Transcript()
		if err != nil || n != int64(len(text)) || read(t, r) != text {
			t.Errorf("transcript of attempt %d has %d bytes: %v", i+1, n, err)
		}
		if err := k.Close("session-" + text[:1]); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(d.Path(), "agents", "planner", "session.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s Session
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	want := []LogRange{{"01J.1", [2]int64{}, [2]int64{}}, {"01J.1", [2]int64{0, 6}, [2]int64{0, 1}},
		{"01J.2", [2]int64{6, 6}, [2]int64{1, 1}}, {"01J.2", [2]int64{6, 21}, [2]int64{1, 2}}}
	if diff := cmp.Diff(want, stretches(t, d, "planner")); diff != "" || s.Vendor != "session-s" {
		t.Errorf("session %q, stretches -want +got\n%s", s.Vendor, diff)
	}
}

// stretches reads the attempts.jsonl of an instance.
func stretches(t *testing.T, d Dir, instance string) []LogRange {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(d.Path(), "agents", instance, "runtime", attemptsFile))
	if err != nil {
		t.Fatal(err)
	}
	var told []LogRange
	for line := range bytes.Lines(data) {
		var s LogRange
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		told = append(told, s)
	}
	return told
}

// TestSessionIsWrittenWhenItChanges checks that an attempt does not rewrite an unchanged session.json.
func TestSessionIsWrittenWhenItChanges(t *testing.T) {
	d := At(t.TempDir(), "01J")
	var was os.FileInfo
	for n, tt := range []struct {
		vendor  string
		changes bool
	}{{"a", true}, {"a", false}, {"", false}, {"b", true}} {
		k, err := openDesk(d, "planner", fmt.Sprintf("01J.%d", n), agent.Vendor{})
		if err == nil {
			err = k.Close(tt.vendor)
		}
		info, stat := os.Stat(filepath.Join(d.Path(), "agents", "planner", sessionFile))
		if err := errors.Join(err, stat); err != nil {
			t.Fatal(err)
		}
		if changed := was == nil || !os.SameFile(was, info); changed != tt.changes {
			t.Errorf("attempt %d: session.json was written: %t", n, changed)
		}
		was = info
	}
	if told := stretches(t, d, "planner"); len(told) != 8 {
		t.Errorf("stretches are %v", told)
	}
}

// TestHalfAStretch checks that a partial line left by a crash does not spoil another.
func TestHalfAStretch(t *testing.T) {
	d := At(t.TempDir(), "01J")
	for n := range 2 {
		k, err := openDesk(d, "planner", fmt.Sprintf("01J.%d", n), agent.Vendor{})
		if err != nil {
			t.Fatal(err)
		}
		k.Raw.WriteString("said")
		if n == 0 {
			k.stretches.WriteString(`{"id":"01`)
		}
		k.close() // without Close: the process died
	}
	got := ""
	keep := func(events, _ io.Reader) error { got = read(t, events); return nil }
	if err := left(d, "planner", "01J.1", keep); err != nil || got != "said" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestWhatADeadOwnerLeft(t *testing.T) {
	d := At(t.TempDir(), "01J")
	for _, id := range []string{"01J.1", "01J.2"} {
		k, err := openDesk(d, "planner", id, agent.Vendor{})
		if err != nil {
			t.Fatal(err)
		}
		k.Raw.WriteString("said in " + id)
		k.close() // without Close: the process died
	}
	got := ""
	keep := func(events, stderr io.Reader) error { got = read(t, events) + "|" + read(t, stderr); return nil }
	if err := left(d, "planner", "01J.2", keep); err != nil || got != "said in 01J.2|" {
		t.Errorf("got %q, %v", got, err)
	}
	got = ""
	if err := left(d, "nobody", "01J.3", keep); err != nil || got != "" {
		t.Errorf("of an attempt without a desk got %q, %v", got, err)
	}
}

// TestLinksLeadNowhere plants links in every place an agent can reach, and checks
// that nothing outside the workspace is touched.
func TestLinksLeadNowhere(t *testing.T) {
	for _, place := range []string{
		".plait", ".plait/tasks", ".plait/tasks/01J", ".plait/tasks/01J/agents", ".plait/tasks/01J/agents/b",
		".plait/tasks/01J/agents/b/runtime", ".plait/tasks/01J/agents/b/artifacts", ".plait/tasks/01J/agents/b/context",
		".plait/tasks/01J/agents/b/runtime/events.jsonl", ".plait/tasks/01J/agents/b/session.json", ".plait/tasks/01J/agents/b/session.json.new",
	} {
		t.Run(place, func(t *testing.T) {
			workspace, victim := t.TempDir(), t.TempDir()
			for _, dir := range []string{"artifacts", "context", "runtime", "agents/b/artifacts"} {
				if err := os.MkdirAll(filepath.Join(victim, dir), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(victim, dir, "precious"), []byte("p"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			target := victim
			if filepath.Ext(place) != "" && filepath.Base(place) != ".plait" {
				target = filepath.Join(victim, "artifacts", "precious")
			}
			link := filepath.Join(workspace, place)
			if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, link); err != nil {
				t.Fatal(err)
			}
			before := tree(t, victim)
			d := At(workspace, "01J")
			if k, err := openDesk(d, "b", "01J.1", agent.Vendor{}); err == nil {
				k.Raw.WriteString("said")
				k.Keep("x", []byte("lent"))
				k.Close("s")
			}
			d.Create(Program{}, false)
			left(d, "b", "01J.1", func(events, stderr io.Reader) error { io.ReadAll(events); return nil })
			d.Remove()
			if diff := cmp.Diff(before, tree(t, victim)); diff != "" {
				t.Errorf("what lies outside the workspace was changed: -before +after\n%s", diff)
			}
		})
	}
}

// tree lists the files below dir with their contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			out[path] = "/"
			return nil
		}
		data, err := os.ReadFile(path)
		out[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestBadInstanceNames(t *testing.T) {
	d := At(t.TempDir(), "01J")
	for _, name := range []string{"", "..", "../x", "a/b", "A", "-a", "a\n", "a b"} {
		if _, err := openDesk(d, name, "01J.1", agent.Vendor{}); err == nil {
			t.Errorf("opened a desk called %q", name)
		}
	}
}
