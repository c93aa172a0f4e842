package proc

import (
	"context"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// watching returns a child that, as far as watch can see, does nothing.
func watching(cfg Config) *running {
	return &running{cfg: cfg, exited: make(chan struct{}), stop: make(chan cause, 1), epoch: time.Now()}
}

func TestWatch(t *testing.T) {
	const idle, wall = 10 * time.Second, time.Minute
	for _, tt := range []struct {
		name  string
		cfg   Config
		while func(r *running, cancel func())
		want  Reason
		after time.Duration
	}{
		{"exits", Config{Idle: idle, Wall: wall}, func(r *running, _ func()) {
			time.Sleep(idle - 1)
			close(r.exited)
		}, "", idle - 1},
		{"silent", Config{Idle: idle, Wall: wall}, func(*running, func()) {}, IdleTime, idle},
		{"no idle limit", Config{Wall: wall}, func(*running, func()) {}, WallTime, wall},
		{"cancelled", Config{Idle: idle}, func(_ *running, cancel func()) {
			time.Sleep(time.Second)
			cancel()
		}, Cancelled, time.Second},
		{"each byte counts", Config{Idle: idle, Wall: wall}, func(r *running, _ func()) {
			for range 6 {
				time.Sleep(idle - 1)
				r.touch()
			}
		}, WallTime, wall},
		{"silent after a byte", Config{Idle: idle, Wall: wall}, func(r *running, _ func()) {
			time.Sleep(idle / 2)
			r.touch()
		}, IdleTime, idle/2 + idle},
		{"we are slow", Config{Idle: idle}, func(r *running, _ func()) {
			r.touch()
			r.busy.Add(1)
			time.Sleep(4*idle + idle/2)
			r.touch()
			r.busy.Add(-1)
		}, IdleTime, 5*idle + idle/2},
		{"first cause wins", Config{Idle: idle}, func(r *running, _ func()) {
			r.fail(Capped, nil)
			r.fail(LineError, nil)
		}, Capped, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := watching(tt.cfg)
				begin := time.Now()
				go tt.while(r, cancel)
				why := r.watch(ctx)
				if took := time.Since(begin); why.reason != tt.want || took != tt.after {
					t.Errorf("stopped for %q after %v, want %q after %v", why.reason, took, tt.want, tt.after)
				}
			})
		})
	}
}

// TestSlowReader checks that what is in the pipe is read when the handling of a line took longer than is waited for
// the end of output, as long as the pipe is open elsewhere too.
func TestSlowReader(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var got []string
	s := &stream{pipe: in, done: make(chan struct{}), r: watching(Config{MaxLine: 9, MaxBytes: 99})}
	s.line = func(line []byte, _ bool) error {
		if got = append(got, string(line)); len(got) == 1 {
			s.ending.Store(true)
			s.late.Store(true)
			if _, err := out.WriteString("two\nthree"); err != nil {
				t.Error(err)
			}
		}
		return nil
	}
	if _, err := out.WriteString("one\n"); err != nil {
		t.Fatal(err)
	}
	s.read()
	if want := []string{"one", "two", "three"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
