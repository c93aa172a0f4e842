package replay_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/replay"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	agenttest.Run(t, agenttest.Config{
		Exact: true, NoProcess: true,
		New: func(t *testing.T, s agenttest.Script) agent.Agent {
			line, _, _ := strings.Cut(strings.ToValidUTF8(string(s.Text), "\uFFFD"), "\n")
			rec := replay.Attempt{Role: "tester", Output: s.Text,
				Events: []agent.Event{{Kind: agent.EventMessage, Text: line}}}
			switch s.End {
			case agenttest.Fails:
				rec.Failure = &replay.Failure{Kind: agent.Infra, Message: "it broke"}
			case agenttest.Hangs, agenttest.Stubborn:
				rec.Delay = time.Hour.Milliseconds()
			}
			return mustNew(t, rec)
		},
	})
}

func mustNew(t *testing.T, attempts ...replay.Attempt) *replay.Agent {
	t.Helper()
	a, err := replay.New(replay.Recording{Attempts: attempts})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func ignore(agent.Event) error { return nil }

func TestChoosesExactly(t *testing.T) {
	a := mustNew(t,
		replay.Attempt{Role: "a", Output: replay.Bytes("a00")},
		replay.Attempt{Role: "a", Try: 2, Output: replay.Bytes("a02")},
		replay.Attempt{Role: "a", Visit: 1, Try: 1, Output: replay.Bytes("a11")},
		replay.Attempt{Role: "b", Output: replay.Bytes("b")},
	)
	for _, tt := range []struct {
		role       string
		visit, try int
		want, miss string
	}{
		{"a", 0, 1, "a00", ""},
		{"a", 0, 1, "a00", ""}, // nothing is consumed
		{"a", 0, 2, "a02", ""},
		{"a", 1, 1, "a11", ""},
		{"b", 0, 1, "b", ""},
		{"a", 1, 2, "", "role a, visit 1, try 2; the recording has visit 0 try 1, visit 0 try 2, visit 1 try 1"},
		{"b", 3, 1, "", "role b, visit 3, try 1; the recording has visit 0 try 1"},
		{"c", 0, 1, "", "role c, visit 0, try 1; the recording has nothing of that role"},
	} {
		var raw bytes.Buffer
		req := agent.Request{Place: agent.Place{Role: tt.role, Visit: tt.visit, Try: tt.try}, Desk: agent.Desk{Raw: &raw}}
		got, err := a.Run(t.Context(), req, ignore)
		if tt.miss == "" {
			if err != nil || string(got.Output) != tt.want || raw.String() != tt.want {
				t.Errorf("%v: got %q, raw %q, %v; want %q", tt, got.Output, raw.String(), err, tt.want)
			}
			continue
		}
		var f *agent.Failure
		if !errors.As(err, &f) || f.Kind != agent.Infra || !f.Final || !strings.Contains(f.Message, tt.miss) {
			t.Errorf("%v: got %v, want a final failure with %q", tt, err, tt.miss)
		}
	}
}

func TestGivesBackEverything(t *testing.T) {
	one := 1
	usage := agent.Usage{InputTokens: 1, CachedInputTokens: 2, OutputTokens: 3, ReasoningTokens: 4, CostMicroUSD: 5}
	events := []agent.Event{{Kind: agent.EventCommand, Phase: "started", Exit: &one},
		{Kind: agent.EventUsage, Usage: &usage}}
	transcript := replay.Bytes("{\"raw\":\xff}\n")
	rec := replay.Attempt{
		Role: "a", Output: replay.Bytes("answer"), Raw: &transcript, Stderr: replay.Bytes("warning\n"),
		Exit: &one, Status: "failed", Plain: true, Session: "s", Model: "m", Usage: usage, Events: events,
	}
	var raw, stderr bytes.Buffer
	req := agent.Request{Place: agent.Place{Role: "a", Try: 1}, Desk: agent.Desk{Raw: &raw, Stderr: &stderr}}
	var said []agent.Event
	got, err := mustNew(t, rec).Run(t.Context(), req, func(e agent.Event) error { said = append(said, e); return nil })
	if err != nil {
		t.Fatal(err)
	}
	want := agent.Result{Output: []byte("answer"), Status: "failed", Exit: &one, Session: "s", Model: "m",
		Usage: usage, Sandbox: "none", Plain: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(events, said); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if raw.String() != string(transcript) || stderr.String() != "warning\n" {
		t.Errorf("got raw log %q and stderr log %q", raw.String(), stderr.String())
	}

	rec.Failure = &replay.Failure{Kind: agent.Limit, Message: "later", ResetAt: time.Unix(5, 0), Final: true}
	_, err = mustNew(t, rec).Run(t.Context(), req, ignore)
	failure := &agent.Failure{Kind: agent.Limit, Message: "later", ResetAt: time.Unix(5, 0), Final: true,
		Session: "s", Exit: &one, Usage: usage}
	if diff := cmp.Diff(error(failure), err); diff != "" {
		t.Errorf("failure (-want +got):\n%s", diff)
	}
}

func TestLargeOutputIsCut(t *testing.T) {
	rec := replay.Attempt{Role: "a", Output: make([]byte, agent.MaxOutput+1)}
	var raw bytes.Buffer
	got, err := mustNew(t, rec).Run(t.Context(), agent.Request{Place: agent.Place{Role: "a", Try: 1},
		Desk: agent.Desk{Raw: &raw}}, ignore)
	if err != nil || len(got.Output) != agent.MaxOutput || !got.Truncated || raw.Len() != agent.MaxOutput+1 {
		t.Errorf("got %d bytes, truncated %t, raw %d, %v", len(got.Output), got.Truncated, raw.Len(), err)
	}
}

func TestDelay(t *testing.T) {
	for _, tt := range []struct {
		name          string
		timeout, idle time.Duration
		want          string
		after         time.Duration
	}{
		{"no limit", 0, 0, "", time.Minute},
		{"within limits", time.Hour, time.Hour, "", time.Minute},
		{"timeout", time.Second, 0, agent.TimedOut, time.Second},
		{"idle", time.Hour, time.Second, agent.TimedOut, time.Second},
		{"the sooner", time.Second, 2 * time.Second, agent.TimedOut, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := mustNew(t, replay.Attempt{Role: "a", Delay: time.Minute.Milliseconds()})
				begin := time.Now()
				_, err := a.Run(t.Context(), agent.Request{Place: agent.Place{Role: "a", Try: 1},
					Limits: agent.Limits{Timeout: tt.timeout, Idle: tt.idle}},
					ignore)
				kind := ""
				var f *agent.Failure
				if errors.As(err, &f) {
					kind = f.Kind
				}
				if took := time.Since(begin); kind != tt.want || took != tt.after {
					t.Errorf("got failure %q after %v, want %q after %v", kind, took, tt.want, tt.after)
				}
			})
		})
	}
}

func TestContinues(t *testing.T) {
	a := mustNew(t, replay.Attempt{Role: "a", Session: "s"}, replay.Attempt{Role: "b"})
	for session, want := range map[string]bool{"s": true, "other": false, "": false} {
		if got := a.Continues(agent.Request{Session: session}); got != want {
			t.Errorf("Continues(%q) = %t, want %t", session, got, want)
		}
	}
}

func TestBrokenDeskIsNoFailure(t *testing.T) {
	r, w := io.Pipe()
	r.Close()
	for _, desk := range []agent.Desk{{Raw: w}, {Stderr: w}} {
		a := mustNew(t, replay.Attempt{Role: "a", Output: replay.Bytes("x"), Stderr: replay.Bytes("y")})
		_, err := a.Run(t.Context(), agent.Request{Place: agent.Place{Role: "a"}, Desk: desk}, func(agent.Event) error {
			t.Error("an event came after the desk broke")
			return nil
		})
		var f *agent.Failure
		if !errors.Is(err, io.ErrClosedPipe) || errors.As(err, &f) {
			t.Errorf("got %v, want the desk's error and no Failure", err)
		}
	}
}
