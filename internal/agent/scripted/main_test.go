package scripted_test

import (
	"bytes"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/agent/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open serves until the test ends.
func open(t *testing.T, cfg scripted.Config) *scripted.Server {
	t.Helper()
	s, err := scripted.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lines is a log that can be read while it is being written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.b.Bytes(), []byte("\n"))
}
