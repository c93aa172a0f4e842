package temporal

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/record/store"
)

// works is work done by its functions.
type works struct {
	reconcile func(context.Context) (dispatch.Agenda, error)
	drive     func(context.Context) error
}

func (w works) Reconcile(ctx context.Context, _ string) (dispatch.Agenda, error) {
	return w.reconcile(ctx)
}
func (w works) Drive(ctx context.Context, _ string, _ *dispatch.Slot) error { return w.drive(ctx) }

// serving returns a host whose Temporal is unavailable, an environment to call its activities in, and its log.
func serving(t *testing.T, host dispatch.Host, w works) (*server, *testsuite.TestActivityEnvironment, *bytes.Buffer) {
	var said bytes.Buffer
	cfg := Config{Log: slog.New(slog.NewTextHandler(&said, nil))}
	cfg.Client.HostPort = "127.0.0.1:1"
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	s := &server{Engine: e, host: host, work: w, serving: t.Context()}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(s.reconcile, activity.RegisterOptions{Name: reconcileActivity})
	env.RegisterActivityWithOptions(s.drive, activity.RegisterOptions{Name: driveActivity})
	return s, env, &said
}

// TestTexts: errors are logged here, and not sent to Temporal.
func TestTexts(t *testing.T) {
	secret := errors.New("cannot read /home/ann/merger.md")
	_, env, said := serving(t, dispatch.Host{ID: "a"}, works{
		reconcile: func(context.Context) (dispatch.Agenda, error) { return dispatch.Agenda{}, secret },
		drive:     func(context.Context) error { return secret },
	})
	_, err := env.ExecuteActivity(reconcileActivity, "t1")
	_, err2 := env.ExecuteActivity(driveActivity, drive{Task: "t1"})
	for _, err := range []error{err, err2} {
		if err == nil || strings.Contains(err.Error(), "merger") {
			t.Errorf("Temporal is told %v", err)
		}
	}
	if n := strings.Count(said.String(), secret.Error()); n != 2 {
		t.Errorf("the log has it %d times, want 2:\n%s", n, said)
	}
}

func TestDriveActivity(t *testing.T) {
	held := &store.HeldError{Name: "thread-x", Owner: "b"}
	tests := map[string]struct {
		host  dispatch.Host
		taken int
		err   error
		want  string
	}{
		"held":     {err: held, want: again},
		"no slot":  {host: dispatch.Host{Slots: dispatch.NewSlots(2, nil)}, taken: 2, want: declined},
		"no label": {host: dispatch.Host{Labels: []string{"linux"}}, want: declined},
		"all there": {host: dispatch.Host{Slots: dispatch.NewSlots(2, nil), Labels: []string{"gpu"}}, taken: 1, err: held,
			want: again},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, env, _ := serving(t, test.host, works{drive: func(context.Context) error { return test.err }})
			for range test.taken {
				s.host.Slots.Take()
			}
			d := drive{Task: "t1"}
			if name == "no label" || name == "all there" {
				d.Needs = []string{"gpu"}
			}
			value, err := env.ExecuteActivity(driveActivity, d)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			if value.Get(&got); got != test.want {
				t.Errorf("it became %q, want %q", got, test.want)
			}
			if free := s.host.Slots.Take() != nil; free == (test.taken == 2) {
				t.Errorf("afterwards a slot is free: %t", free)
			}
		})
	}
}

// TestAgenda: the time of the next look is sent relative to now.
func TestAgenda(t *testing.T) {
	var at time.Time
	_, env, _ := serving(t, dispatch.Host{ID: "a"}, works{reconcile: func(context.Context) (dispatch.Agenda, error) {
		return dispatch.Agenda{At: at}, nil
	}})
	look := func() (a agenda) {
		value, err := env.ExecuteActivity(reconcileActivity, "t1")
		if err != nil {
			t.Fatal(err)
		}
		value.Get(&a)
		return a
	}
	if a := look(); a.Look {
		t.Errorf("never came as %+v", a)
	}
	at = time.Now().Add(time.Hour)
	if a := look(); !a.Look || a.After > time.Hour || a.After < 50*time.Minute {
		t.Errorf("in an hour came as %+v", a)
	}
	at = time.Now().Add(-time.Hour)
	if a := look(); !a.Look || a.After != 0 {
		t.Errorf("an hour ago came as %+v", a)
	}
}

// TestStopping: a host that is stopping starts no further call.
func TestStopping(t *testing.T) {
	s, env, _ := serving(t, dispatch.Host{ID: "a"}, works{}) // its calls would panic
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.serving = ctx
	if _, err := env.ExecuteActivity(reconcileActivity, "t1"); err == nil {
		t.Error("it says that it has looked")
	}
	value, err := env.ExecuteActivity(driveActivity, drive{Task: "t1"})
	var became string
	if err != nil || value.Get(&became) != nil || became != declined {
		t.Errorf("it became %q, %v", became, err)
	}
}

// TestUninterrupted: neither the end of the activity nor that of serving ends a drive.
func TestUninterrupted(t *testing.T) {
	begun, hold := make(chan struct{}), make(chan struct{})
	s, _, _ := serving(t, dispatch.Host{ID: "a"}, works{})
	ctx, cancel := context.WithCancel(t.Context())
	s.serving = ctx
	done := make(chan error)
	go func() {
		done <- s.call(ctx, func(ctx context.Context) error {
			close(begun)
			<-hold
			return ctx.Err()
		})
	}()
	<-begun
	cancel()
	close(hold)
	if err := <-done; err != nil {
		t.Errorf("the drive was told: %v", err)
	}
}

// TestAway: an unavailable Temporal is waited for until serving ends.
func TestAway(t *testing.T) {
	s, _, said := serving(t, dispatch.Host{ID: "a"}, works{})
	ctx, cancel := context.WithCancel(t.Context())
	tried := make(chan struct{}, 1)
	s.Engine.log = slog.New(notice{slog.NewTextHandler(said, nil), tried})
	done := make(chan error)
	go func() { done <- s.Serve(ctx, s.host, s.work) }()
	<-tried
	<-tried
	cancel()
	if err := <-done; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// notice signals when something is logged.
type notice struct {
	slog.Handler
	said chan struct{}
}

func (n notice) Handle(ctx context.Context, r slog.Record) error {
	select {
	case n.said <- struct{}{}:
	default:
	}
	return n.Handler.Handle(ctx, r)
}

func TestPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := dispatch.NewSlots(1, nil)
		p := polling{slots}
		var got *worker.SlotPermit
		reserve := func() { got, _ = p.ReserveSlot(t.Context(), nil) }
		if reserve(); got == nil {
			t.Fatal("it does not poll although there is a slot")
		}
		slot := slots.Take()
		got = nil
		go reserve()
		if synctest.Wait(); got != nil {
			t.Error("it polls without a slot")
		}
		slot.Release()
		if synctest.Wait(); got == nil {
			t.Error("it does not poll although there is a slot")
		}
		slots.Take()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.ReserveSlot(ctx, nil); err == nil {
			t.Error("it waits although it is to stop")
		}
	})
}

func TestConfig(t *testing.T) {
	for _, prefix := range []string{"a/b", " ", "-a", strings.Repeat("a", 51), "ä"} {
		if _, err := New(Config{Prefix: prefix}); err == nil {
			t.Errorf("the prefix %q is taken", prefix)
		}
	}
	empty := filepath.Join(t.TempDir(), "temporal.toml")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"TEMPORAL_CONFIG_FILE": empty, "TEMPORAL_ADDRESS": "temporal.example.com:7233", "TEMPORAL_NAMESPACE": "agents",
		"TEMPORAL_API_KEY": "hush",
	} {
		t.Setenv(name, value)
	}
	cfg, err := Environment()
	if err != nil {
		t.Fatal(err)
	}
	if o := cfg.Client; o.HostPort != "temporal.example.com:7233" || o.Namespace != "agents" || o.Credentials == nil ||
		o.ConnectionOptions.TLS == nil && o.ConnectionOptions.TLSDisabled {
		t.Errorf("the environment came as %+v", o)
	}
	t.Setenv("TEMPORAL_TLS_CLIENT_CERT_PATH", filepath.Join(t.TempDir(), "none.pem"))
	t.Setenv("TEMPORAL_TLS_CLIENT_KEY_PATH", filepath.Join(t.TempDir(), "none.key"))
	if _, err := Environment(); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("a certificate that is not there: %v", err)
	}
}
