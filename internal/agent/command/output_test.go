package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
)

func TestProgressIsCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var got []string
		p := &progress{stop: func(error) {}, emit: func(e agent.Event) error {
			got = append(got, fmt.Sprintf("%v %s", time.Since(begin), e.Text))
			return nil
		}}
		for i := range 50 { // a line every 10 ms
			p.line(fmt.Appendf(nil, "line %d", i), false)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second) // the timer emits line 49
		p.line([]byte("slow"), false)
		time.Sleep(time.Millisecond)
		p.line([]byte("quick"), false)
		p.line([]byte("last"), false)
		p.flush()
		time.Sleep(time.Second)
		p.mu.Lock()
		defer p.mu.Unlock()
		want := []string{"0s line 0", "200ms line 19", "400ms line 39", "600ms line 49", "1.5s slow", "1.501s last"}
		// At 200 ms line 20 and the timer coincide; either may be first.
		for i, alt := range map[int]string{1: "200ms line 20", 2: "400ms line 40"} {
			if i < len(got) && got[i] == alt {
				want[i] = alt
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestProgressEndsWithItsFirstError(t *testing.T) {
	broken := errors.New("broken")
	ctx, stop := context.WithCancelCause(t.Context())
	calls := 0
	p := &progress{stop: stop, emit: func(agent.Event) error { calls++; return broken }}
	if err := p.line([]byte("a"), false); err != broken {
		t.Errorf("line returned %v", err)
	}
	p.line([]byte("b"), false)
	p.event(agent.Event{Kind: agent.EventCommand})
	p.flush()
	if calls != 1 || context.Cause(ctx) != broken {
		t.Errorf("emit was called %d times, the context ended with %v", calls, context.Cause(ctx))
	}
}

func TestProgressLine(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain", "text", "text"},
		{"carriage return", "text\r", "text"},
		{"redrawn", "10%\r20%", "20%"},
		{"blank", " \t\r", ""},
		{"invalid", "a\xffb", "a\uFFFDb"},
		{"long", strings.Repeat("x", 3000), strings.Repeat("x", maxText) + "…"},
		{"long in a rune", strings.Repeat("x", maxText-1) + "äää", strings.Repeat("x", maxText-1) + "…"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			p := &progress{stop: func(error) {}, emit: func(e agent.Event) error { got = e.Text; return nil }}
			p.line([]byte(tt.in), false)
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzTail(f *testing.F) {
	f.Add([]byte("a\nb"), 1)
	f.Add([]byte("\xff\n\n  \n"), 3)
	f.Fuzz(func(t *testing.T, in []byte, chunk int) {
		if chunk < 1 {
			return
		}
		var last tail
		for rest := in; len(rest) > 0; {
			n := min(chunk, len(rest))
			last.Write(rest[:n])
			rest = rest[n:]
		}
		said := last.suffix()
		if !utf8.ValidString(said) || len(said) > maxProgress+len(": …") || strings.Contains(said, "\n") {
			t.Errorf("%q gives %q", in, said)
		}
	})
}
