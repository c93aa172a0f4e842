package cli

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
)

// older is the directory of a store that an earlier version wrote; make.sh there says how.
const older = "testdata/schema2"

// newOlder returns a place with that store, moved to the place's workspace.
func newOlder(t *testing.T) *place {
	p := newPlace(t)
	ws, home := filepath.Join(p.work, "ws"), filepath.Join(p.work, "home")
	if err := os.CopyFS(ws, os.DirFS(filepath.Join(older, "ws"))); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	packed, err := os.Open(filepath.Join(older, "plait.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	data, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	db, err := os.OpenFile(filepath.Join(home, "plait.db"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(db, data); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	p.move(func(store.Thread) bool { return true })
	return p
}

// move makes tasks in the place's record tasks of its workspace.
func (p *place) move(which func(store.Thread) bool) {
	p.t.Helper()
	s, err := sqlite.Open(p.t.Context(), sqlite.Config{Dir: filepath.Join(p.work, "home")})
	if err != nil {
		p.t.Fatal(err)
	}
	defer s.Close()
	rows, err := s.Threads(p.t.Context(), store.ThreadFilter{})
	if err != nil {
		p.t.Fatal(err)
	}
	var b store.Batch
	for _, row := range rows {
		if was := row.State(); which(row) {
			row.Workspace = filepath.Join(p.work, "ws")
			b.Threads = append(b.Threads, store.ThreadChange{Row: row, From: was})
		}
	}
	if err := s.Commit(p.t.Context(), b); err != nil {
		p.t.Fatal(err)
	}
}

// well runs plait and fails the test unless it exits with 0.
func (p *place) well(args ...string) string {
	p.t.Helper()
	out, code := p.run(args...)
	if code != 0 {
		p.t.Errorf("plait %s: exit code %d: %s", strings.Join(args, " "), code, out)
	}
	return out
}

// steps lists the steps of the tasks as testdata/schema2/make.sh does.
func (p *place) steps(tasks []string) string {
	var b strings.Builder
	for _, id := range tasks {
		var v struct {
			Data struct {
				ID, Status string
				Steps      []struct {
					N          int
					Role, Path string
				}
			}
		}
		if err := json.Unmarshal([]byte(p.well("thread", "show", id, "--json")), &v); err != nil {
			p.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s\n", v.Data.ID, v.Data.Status)
		for _, s := range v.Data.Steps {
			fmt.Fprintf(&b, "  %d %s %s\n", s.N, s.Role, s.Path)
		}
	}
	return b.String()
}

// answer answers the open question of a task and lets the task continue.
func (p *place) answer(task string) {
	p.t.Helper()
	var v struct {
		Data struct{ Gates []struct{ ID, Task string } }
	}
	if err := json.Unmarshal([]byte(p.well("gate", "list", "--json")), &v); err != nil {
		p.t.Fatal(err)
	}
	for _, g := range v.Data.Gates {
		if g.Task == task {
			p.well("gate", "answer", g.ID, "-m", "this")
		}
	}
	p.well("resume", task, "-q", "--trust")
}

// TestOlderStore checks that what an earlier version wrote is sound, is shown as before, can
// be forked, and continues; later joins are made as they are today.
func TestOlderStore(t *testing.T) {
	digests := map[string]string{}
	var tasks []string
	f, err := os.Open(filepath.Join(older, "digests"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		id, digest, _ := strings.Cut(lines.Text(), " ")
		tasks, digests[id] = append(tasks, id), digest
	}
	want, err := os.ReadFile(filepath.Join(older, "steps"))
	if err != nil {
		t.Fatal(err)
	}
	p := newOlder(t)
	p.well("verify")
	if got := p.steps(tasks); got != string(want) {
		t.Errorf("it has the steps\n%s\nwant\n%s", got, want)
	}

	p.answer("01K0000000000000000000ASKS")
	p.answer("01K0000000000000000000P1AN")
	p.write("go", "")
	for _, id := range []string{"01K0000000000000000000HAND", "01K0000000000000000000S10W"} {
		p.well("resume", id, "-q", "--trust")
	}
	if out, code := p.run("resume", "01K000000000000000000P1AN2", "-q", "--trust"); code != exitPerson {
		t.Errorf("the plan that was forked: exit code %d: %s", code, out)
	}
	p.answer("01K000000000000000000P1AN2")
	for _, id := range tasks {
		if got := strings.TrimSpace(p.well("thread", "show", id, "--digest")); got != digests[id] {
			t.Errorf("task %s came to %s, want %s", id, got, digests[id])
		}
	}
	p.well("verify")

	// At a step written by the earlier version, inside a path and outside all paths.
	for _, at := range []string{"6", "9"} {
		p.well("thread", "fork", "01K0000000000000000000NEST", "--at", at, "--id", "01K00000000000000000000F0"+at)
		p.well("resume", "01K00000000000000000000F0"+at, "-q", "--trust")
	}
	p.well("verify")
}
