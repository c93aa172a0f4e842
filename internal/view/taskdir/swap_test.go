package taskdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/plait-run/plait/internal/testing/soak"
)

// TestCopySwap replaces a file, and the directory that it is in, with links, pipes and
// directories while they are read: only the file is ever read, and nothing blocks.
func TestCopySwap(t *testing.T) {
	const secret = "nobody's business"
	c, dir := copyOf(t, map[string]string{
		"task.yaml": "title: x", "shared/reports/r.md": "# R", "agents/a/private/r.md": secret, "agents/a/private/.r": secret, "shared/secret": secret, "shared/.other/r.md": "# R",
	})
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "r.md"), []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
	reports, file := filepath.Join(dir, "shared/reports"), filepath.Join(dir, "shared/reports/r.md")
	swaps := []func() error{
		func() error { return os.Symlink("../../agents/a/private", reports) },
		func() error { return os.Symlink(outside, reports) },
		func() error { return syscall.Mkfifo(reports, 0o644) },
		func() error { return os.WriteFile(reports, nil, 0o644) },
		func() error { return os.Symlink("../secret", file) },
		func() error { return os.Symlink(filepath.Join(outside, "r.md"), file) },
		func() error { return syscall.Mkfifo(file, 0o644) },
		func() error { return os.Mkdir(file, 0o755) },
		func() error { return os.Link(filepath.Join(dir, "shared/secret"), file) },
		func() error { return os.WriteFile(file, []byte("# R"), 0o644) },
	}
	n := soak.Rounds(t, soak.Tries(10_000, 2_000))
	var reads sync.WaitGroup
	done, seen := make(chan struct{}), atomic.Int64{}
	for range 2 {
		reads.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if papers, _, err := c.Documents(); err == nil {
					for _, p := range papers {
						if p.Name != "shared/reports/r.md" {
							t.Errorf("%+v is listed", p)
						}
					}
				}
				f, _, err := c.Open("shared/reports/r.md")
				if err != nil {
					if !errors.Is(err, fs.ErrNotExist) {
						t.Error(err)
					}
					continue
				}
				data, err := io.ReadAll(f)
				f.Close()
				if text := string(data); err != nil || strings.Contains(text, secret) || !strings.HasPrefix("# R", text) {
					t.Errorf("it reads %q: %v", data, err)
				}
				seen.Add(1)
			}
		})
	}
	for i := 0; i < n || seen.Load() == 0; i++ { // on a busy machine the readers may begin late
		os.RemoveAll(reports)
		swap := swaps[i%len(swaps)]
		if i%len(swaps) > 3 {
			if err := os.Mkdir(reports, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := swap(); err != nil {
			t.Fatal(fmt.Errorf("swap %d: %w", i, err))
		}
	}
	close(done)
	reads.Wait()
}
