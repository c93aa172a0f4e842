package web

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/plait-run/plait/internal/view/taskdir"
)

// TestPlanted replaces what pages read with pipes, links, files and devices, and requests every
// page: all respond soon, none shows foreign content, and the task's page still works.
func TestPlanted(t *testing.T) {
	plants := map[string]func(string) error{
		"pipe":   func(f string) error { return syscall.Mkfifo(f, 0o644) },
		"file":   func(f string) error { return os.WriteFile(f, []byte("x"), 0o644) },
		"loop":   func(f string) error { return os.Symlink(filepath.Base(f), f) },
		"zeros":  func(f string) error { return os.Symlink("/dev/zero", f) },
		"socket": func(f string) error { return syscall.Mknod(f, syscall.S_IFSOCK|0o644, 0) },
		"huge":   func(f string) error { return errors.Join(os.WriteFile(f, nil, 0o644), os.Truncate(f, 1<<23)) },
		"secret": func(f string) error { return os.Symlink(filepath.Join(filepath.Dir(f), "outside"), f) },
	}
	for name, plant := range plants {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, gatedAgents())
			row := h.run(gated, "do it")
			g := h.gate(row.ID)
			s := h.open("")
			dir := taskdir.At(h.dir, row.ID).Path()
			for _, place := range []string{
				filepath.Join(dir, "shared/reports/a.md"), filepath.Join(dir, "shared/reports"),
				filepath.Join(dir, "shared/evidence"), filepath.Join(dir, "shared"), filepath.Join(dir, "agents/plan/artifacts"),
				filepath.Join(dir, "agents/plan"), filepath.Join(dir, "agents"), filepath.Join(dir, "task.yaml"),
				filepath.Join(dir, "events.jsonl"), dir, filepath.Dir(dir),
				filepath.Join(h.dir, ".plait/flows/solo.yaml"), filepath.Join(h.dir, ".plait/flows/index.yaml"),
				filepath.Join(h.dir, ".workflows/local/index.yaml"), filepath.Join(h.dir, ".workflows"),
			} {
				if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
					t.Fatal(err)
				}
				outside := filepath.Join(filepath.Dir(place), "outside")
				if err := errors.Join(os.RemoveAll(outside), os.Mkdir(outside, 0o755)); err != nil {
					t.Fatal(err)
				}
				h.write(filepath.Join(outside, "a.md"), canary)
				old := place + ".old"
				moved := os.Rename(place, old) == nil
				if err := plant(place); err != nil {
					t.Fatal(err)
				}
				for _, r := range s.srv.routes() {
					if r.Method != http.MethodGet {
						continue
					}
					if res := s.page(r, row, g.ID); res.code >= 500 || strings.Contains(res.body, canary) {
						t.Errorf("%s in the place of %s: %s: %d %s", name, place[len(h.dir):], r.Path, res.code, res.body)
					}
				}
				for _, path := range []string{"?tab=reports", "?tab=evidence", "?tab=events", "", "/read/shared/reports/a.md"} {
					if res := s.get("/tasks/" + row.ID + path); res.code != http.StatusOK && !strings.HasPrefix(path, "/read") ||
						res.code >= 500 || strings.Contains(res.body, canary) {
						t.Errorf("%s in the place of %s: %s: %d %s", name, place[len(h.dir):], path, res.code, res.body)
					}
				}
				for _, flow := range []string{"solo", "local", "index"} {
					if res := s.get("/flows/" + flow); res.code >= 500 || strings.Contains(res.body, canary) {
						t.Errorf("%s in the place of %s: the flow %s: %d", name, place[len(h.dir):], flow, res.code)
					}
				}
				os.RemoveAll(place)
				os.RemoveAll(outside)
				if moved {
					if err := os.Rename(old, place); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}
