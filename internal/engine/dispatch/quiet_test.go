package dispatch_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plait-run/plait/internal/engine/dispatch"
)

// TestQuiet: complaints while the record is unavailable become one line, and one more when it is back. All others
// are passed on.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var said bytes.Buffer
		var away atomic.Bool
		to := slog.NewTextHandler(&said, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})
		log := slog.New(dispatch.Quiet(ctx, to, func(context.Context) error {
			if away.Load() {
				return errors.New("connection refused")
			}
			return nil
		}))
		want := func(lines ...string) {
			t.Helper()
			synctest.Wait()
			got := strings.TrimSpace(said.String())
			said.Reset()
			if want := strings.Join(lines, "\n"); got != want {
				t.Errorf("it says\n%s\nwant\n%s", got, want)
			}
		}
		log.With("worker", "a").Warn("it is odd", "n", 1)
		log.Warn("and odd again")
		want(`level=WARN msg="it is odd" worker=a n=1`, `level=WARN msg="and odd again"`)
		away.Store(true)
		log.Info("begins")
		for range 30 {
			log.Error("cannot fetch")
			log.WithGroup("queue").Warn("cannot look", "name", "any")
			time.Sleep(time.Second)
		}
		want("level=INFO msg=begins", `level=WARN msg="record is away" error="connection refused"`)
		time.Sleep(time.Second / 2)
		away.Store(false)
		time.Sleep(2 * time.Second)
		log.Error("cannot complete what was under way")
		want(`level=WARN msg="record is back" after=31s suppressed=60`)
		time.Sleep(5 * time.Second)
		log.Error("something else")
		want(`level=ERROR msg="something else"`)
		away.Store(true)
		log.Error("cannot fetch")
		want(`level=WARN msg="record is away" error="connection refused"`)
		end()
		log.Error("the last words")
		want(`level=ERROR msg="the last words"`)
	})
}
