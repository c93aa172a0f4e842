package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/adrg/xdg"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/testing/mem"
)

// newReadiness returns a readiness of a disk with the given room.
func newReadiness(t *testing.T, room func(string) (int64, error)) *readiness {
	return &readiness{getenv: func(string) string { return "" }, dirs: []string{t.TempDir()}, room: room,
		seen: func(context.Context) error { return nil }, turn: make(chan struct{}, 1), short: map[string]bool{}}
}

// A worker whose disk was too full wants more room than was missing, and says the same meanwhile.
func TestReadyAfterAFullDisk(t *testing.T) {
	free := int64(0)
	r := newReadiness(t, func(string) (int64, error) { return free, nil })
	said := ""
	for _, x := range []struct {
		free int64
		able bool
	}{
		{minFree, true}, {minFree - 1, false},
		{minFree, false}, {enoughFree - 1, false},
		{enoughFree, true}, {minFree, true},
	} {
		free = x.free
		why := r.check(t.Context())
		if able := why == nil; able != x.able {
			t.Fatalf("with %d bytes: %v", free, why)
		}
		if why != nil && said != "" && why.Error() != said {
			t.Errorf("it said %q, and now %q", said, why)
		}
		if why != nil {
			said = why.Error()
		}
	}
	if !strings.HasPrefix(said, "no space left on device: ") {
		t.Errorf("it said %q", said)
	}
	r.room = func(string) (int64, error) { return 0, fs.ErrInvalid }
	if why := r.check(t.Context()); why != nil {
		t.Errorf("where the room is not known: %v", why)
	}
}

// A disk that does not answer keeps nobody waiting for ever, and the worker comes back when it does.
func TestReadyOnADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		r := newReadiness(t, func(string) (int64, error) {
			<-hangs
			return 0, nil
		})
		for range 2 { // the second finds the first still waiting
			began := time.Now()
			if why := r.check(t.Context()); why == nil || why.Error() != "no answer for 10s from "+r.dirs[0] {
				t.Errorf("it says %v", why)
			}
			if took := time.Since(began); took != readyWait {
				t.Errorf("it took %v", took)
			}
		}
		close(hangs)
		synctest.Wait()
		if why := r.check(t.Context()); why == nil || !strings.HasPrefix(why.Error(), "no space left on device") {
			t.Errorf("it says %v", why)
		}
	})
}

// A worker asks for a key again that its program could not print; another process asks once.
func TestKeyOfAWorker(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	for worker, want := range map[string]string{"": "", "build": "the key of the shop"} {
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		a := &app{worker: worker, err: io.Discard, getenv: func(string) string { return "" }}
		a.keys.read, a.keys.values = true, map[string]string{}
		a.keys.commands = map[string][]string{"SHOP_KEY": {"cat", file}}
		if got := a.secret("SHOP_KEY"); got != "" {
			t.Errorf("it has %q", got)
		}
		if err := os.WriteFile(file, []byte("the key of the shop\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := a.secret("SHOP_KEY"); got != want {
			t.Errorf("worker %q: %q, want %q", worker, got, want)
		}
	}
}

// A worker looks at all disks that it and all its agents write to.
func TestTeamDirs(t *testing.T) {
	home, tmp, cache := t.TempDir(), t.TempDir(), t.TempDir()
	t.Cleanup(xdg.Reload) // once the variables are as before
	t.Setenv("TMPDIR", tmp)
	t.Setenv("XDG_CACHE_HOME", cache)
	xdg.Reload()
	if got := (&app{}).teamDirs(home); !slices.Equal(got, []string{home, tmp, cache}) {
		t.Errorf("it looks at %q", got)
	}
}

// A pinged engine answers unless it has an error.
type pinged struct {
	Engine
	err error
}

func (e *pinged) Ping(context.Context) error { return e.err }

// A worker is not healthy without its engine.
func TestHealthOfTheEngine(t *testing.T) {
	a, e := &app{program: Program{Team: &Team{}}}, &pinged{}
	s := mem.New(mem.Config{})
	stats, err := a.listen("127.0.0.1:0", s, e, control.NewWorker(control.WorkerConfig{Store: s}), Measured{})
	if err != nil {
		t.Fatal(err)
	}
	defer stats.Close()
	for _, want := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		got, err := http.Get("http://" + stats.addr.String() + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		if got.Body.Close(); got.StatusCode != want {
			t.Errorf("status %d, want %d", got.StatusCode, want)
		}
		e.err = errors.New("connection refused")
	}
}
