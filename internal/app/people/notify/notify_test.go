package notify

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/record/store"
)

var asked = Notification{
	Schema: Schema, Event: config.OnNeedsYou, Task: "01J", Short: "k7f2", Title: "Fix it", Flow: "f",
	Reason: "Which port?", Question: &Question{ID: "g-1", Kind: store.GateInput, Text: "Which\nport\x00?"},
	Workspace: "/w", At: 7,
}

// open returns a sender whose log can be read after it is closed.
func open(t *testing.T, cfg Config) (*Sender, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Dir = t.TempDir()
	if cfg.To.On == nil {
		cfg.To.On = []string{config.OnNeedsYou, config.OnDone, config.OnFailed}
	}
	s := NewSender(cfg)
	t.Cleanup(s.Close)
	return s, &log
}

func TestCommand(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "secret")
	t.Setenv("PLAIT_HOME", "/record")
	t.Setenv("DISPLAY", ":7")
	dir := t.TempDir()
	keep := []string{"sh", "-c", `cat > "$1/body"; env > "$1/env"`, "sh", dir}
	s, log := open(t, Config{To: config.Notify{Command: keep}})
	s.Send(asked)
	s.Close()
	body, err := os.ReadFile(filepath.Join(dir, "body"))
	if err != nil {
		t.Fatal(err, log)
	}
	var got Notification
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asked, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	env, err := os.ReadFile(filepath.Join(dir, "env"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(env), "\n")
	for _, want := range []string{
		"DISPLAY=:7", "PLAIT_NOTIFY_EVENT=needs-you", "PLAIT_NOTIFY_TASK=01J", "PLAIT_NOTIFY_SHORT=k7f2",
		"PLAIT_NOTIFY_TITLE=Fix it", "PLAIT_NOTIFY_FLOW=f", "PLAIT_NOTIFY_REASON=Which port?",
		"PLAIT_NOTIFY_QUESTION_ID=g-1", "PLAIT_NOTIFY_QUESTION_KIND=input", "PLAIT_NOTIFY_QUESTION=Which port\uFFFD?",
		"PLAIT_NOTIFY_WORKSPACE=/w",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %s in\n%s", want, env)
		}
	}
	if strings.Contains(string(env), "secret") || strings.Contains(string(env), "PLAIT_HOME") {
		t.Errorf("too much in\n%s", env)
	}
}

func TestWebhook(t *testing.T) {
	got := make(chan Notification, 2)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n Notification
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil || r.Method != http.MethodPost ||
			r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v: %v", r.Method, r.Header, err)
		}
		got <- n
	}))
	defer srv.Close()
	s, log := open(t, Config{To: config.Notify{Webhook: srv.URL, On: []string{config.OnNeedsYou}}})
	s.Send(asked)
	done := asked
	done.Event = config.OnDone
	s.Send(done) // not in On
	s.Close()
	if len(got) != 1 {
		t.Fatalf("%d notifications: %s", len(got), log)
	}
	if diff := cmp.Diff(asked, <-got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Failures are logged, without the address, which may be a key.
func TestFailures(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirect was followed")
	}))
	defer elsewhere.Close()
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "moved") {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer bad.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	stuck := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer stuck.Close()
	for _, tt := range []struct {
		name string
		to   config.Notify
		want string
	}{
		{"an error of the webhook", config.Notify{Webhook: bad.URL + "/token"}, "status 500"},
		{"a redirect", config.Notify{Webhook: bad.URL + "/token/moved"}, "status 307"},
		{"no webhook", config.Notify{Webhook: gone.URL + "/token"}, "notification failed"},
		{"a webhook that hangs", config.Notify{Webhook: stuck.URL + "/token"}, "notification failed"},
		{"a command that hangs", config.Notify{Command: []string{"sleep", "1000000"}}, "it was stopped"},
		{"a command that fails", config.Notify{Command: []string{"false"}}, "exit code 1"},
		{"no command", config.Notify{Command: []string{"no-such-program"}}, "notification failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, log := open(t, Config{To: tt.to, Patience: 300 * time.Millisecond})
			s.Send(asked)
			s.Close()
			if !strings.Contains(log.String(), tt.want) || strings.Contains(log.String(), "token") {
				t.Errorf("%q, want %q", log, tt.want)
			}
		})
	}
}

// A flood is limited: in concurrency, and in the length of the queue.
func TestFlood(t *testing.T) {
	var now, most, all atomic.Int64
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		all.Add(1)
		for n := now.Add(1); ; {
			if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		<-release
		now.Add(-1)
	}))
	defer srv.Close()
	s, log := open(t, Config{To: config.Notify{Webhook: srv.URL}, Patience: time.Minute})
	for range maxPending + 10 {
		s.Send(asked)
	}
	close(release)
	s.Close()
	if most.Load() > atOnce || all.Load() != maxPending || strings.Count(log.String(), "notification dropped") != 10 {
		t.Errorf("%d at once, %d in all: %s", most.Load(), all.Load(), log)
	}
}
