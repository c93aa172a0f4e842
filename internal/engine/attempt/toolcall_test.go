package attempt

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// called is a tool call as an agent reports it, whose lines are the first and the last of three.
func called(phase string, line int, text string) agent.Event {
	return agent.Event{Kind: agent.EventTool, ID: "c", Phase: phase, Text: "lab/note", Line: line,
		Detail: json.RawMessage(`{"text":"` + text + `"}`)}
}

// TestToolCallsBecomeEvidence: the lines of the transcript from a call's start to its end are kept, even if it is
// from an earlier turn; a call that failed has no hash, and one that is nowhere reported no entry.
func TestToolCallsBecomeEvidence(t *testing.T) {
	var turns int
	s, e, _ := emitting(t, func(req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		turns++
		lines := []string{"begins\n", "between\n", "ends\n", "after\n"}
		if turns == 2 {
			lines = []string{"another turn\n", "fails\n"}
		}
		if _, err := req.Desk.Raw.Write([]byte(strings.Join(lines, ""))); err != nil {
			return agent.Result{}, err
		}
		said := []agent.Event{called("started", 1, "x"), called("completed", 3, "x"), called("completed", 0, "nowhere")}
		if turns == 2 {
			said = []agent.Event{called("failed", 2, "x")}
		}
		for _, ev := range said {
			if err := emit(ev); err != nil {
				return agent.Result{}, err
			}
		}
		if turns == 1 {
			return answered(`{"$status":"done","evidence":[{"id":"Bad","kind":"file-anchor","title":"t","path":"a.txt"}]}`)
		}
		return answered(`{"$status":"done"}`)
	})
	e.cfg.Desks = heardDesks{}
	e.Runner = New(e.cfg)
	after, err := e.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	evidence := evidenceOf(t, s, after.Head)
	if diff := cmp.Diff([]string{"first.tool-1", "first.tool-1-2-1"}, ids(evidence)); diff != "" {
		t.Fatalf("-want +got\n%s", diff)
	}
	one, two, three := 1, 2, 3
	want := [][]thread.EvidenceSource{
		{{EventsRef: dag.Sum([]byte("begins\nbetween\nends\nafter\n")), StartLine: &one, EndLine: &three,
			Hash: dag.Sum([]byte("begins\nbetween\nends\n"))}},
		{{EventsRef: dag.Sum([]byte("another turn\nfails\n")), StartLine: &two, EndLine: &two}},
	}
	for i, ev := range evidence {
		if diff := cmp.Diff(want[i], ev.Sources); diff != "" {
			t.Errorf("%s: -want +got\n%s", ev.ID, diff)
		}
		if ev.Kind != thread.RuntimeEventRange || ev.Unfinished() != (i == 1) {
			t.Errorf("%s is %s, unfinished: %v", ev.ID, ev.Kind, ev.Unfinished())
		}
	}
}

// heardDesks opens desks that keep what the agent says.
type heardDesks struct{ housetest.BareDesks }

func (heardDesks) Open(store.Thread, string, string, agent.Vendor) (agent.Directory, error) {
	return heardDesk{said: new(bytes.Buffer)}, nil
}

type heardDesk struct {
	housetest.BareDesk
	said *bytes.Buffer
}

func (d heardDesk) Agent() agent.Desk { return agent.Desk{Raw: d.said} }
func (d heardDesk) Transcript() (io.ReadCloser, int64, error) {
	return io.NopCloser(bytes.NewReader(d.said.Bytes())), int64(d.said.Len()), nil
}

// A resumer is an agent whose sessions continue.
type resumer struct{}

func (resumer) Continues(agent.Request) bool { return true }

func (resumer) Run(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
	return agent.Result{Output: []byte(`{"$status":"done"}`), Sandbox: "none", Session: "s1"}, nil
}

// An interrupted attempt whose log is gone does not keep the next one from becoming the step, though it has called a
// tool.
func TestToolCallWithoutTranscript(t *testing.T) {
	h := newHouse(t, "read", resumer{})
	ctx := t.Context()
	c, err := h.Thread(ctx, h.row)
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.Prepare(ctx, c, c.Next().(flow.Run), "")
	if err != nil {
		t.Fatal(err)
	}
	p.Row.Session = "s1"
	attempts, events := p.Begun(h.row)
	events = append(events, event.OfAttempt(h.row, p.Row, 1, event.AgentItems{Role: p.Row.Role,
		Items: []json.RawMessage{item(called("started", 1, "a")), item(called("completed", 2, "a"))}}))
	if err := h.store.Commit(ctx, store.Batch{Objects: p.Objects, Attempts: attempts, Events: events}); err != nil {
		t.Fatal(err)
	}
	row, a := h.row, p.Row
	if err := h.End(ctx, &row, &a); err != nil { // nothing is left of its log
		t.Fatal(err)
	}
	from := h.row.Head
	if after, err := h.Step(ctx); err != nil || after.Head == from {
		t.Errorf("the head is %s, %v", after.Head.Short(), err)
	}
}
