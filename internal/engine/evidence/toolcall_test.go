package evidence

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// called is a tool call as an agent reports it, on a line of its transcript.
func called(phase string, line int, text string) agent.Event {
	return agent.Event{Kind: agent.EventTool, ID: "c", Phase: phase, Text: "lab/note", Line: line,
		Detail: json.RawMessage(`{"text":"` + text + `"}`)}
}

// A logDesk has a transcript.
type logDesk struct {
	housetest.BareDesk
	said string
}

func (d logDesk) Transcript() (io.ReadCloser, int64, error) {
	return io.NopCloser(bytes.NewReader([]byte(d.said))), int64(len(d.said)), nil
}

// TestToolCalls: the lines of the transcript from a call's start to its end are kept, even if it is from an earlier
// turn; a call that failed has no hash, and one that is nowhere reported no entry.
func TestToolCalls(t *testing.T) {
	s := newScene(t)
	before := "begins\nbetween\nends\nafter\n"
	log := store.Object{Hash: dag.Sum([]byte(before)), Data: []byte(before)}
	if err := s.store.Commit(t.Context(), store.Batch{Objects: []store.Object{log}}); err != nil {
		t.Fatal(err)
	}
	s.desk = logDesk{said: "another turn\nfails\n"}
	a := s.answer(`{"$status":"done"}`, called("started", 1, "x"), called("completed", 3, "x"),
		called("completed", 0, "nowhere"))
	a.Earlier = []store.Attempt{{ID: "x.1", Transcript: log.Hash}}
	a.Attempt.ID, a.Turn = "x.2", TurnOf(1, 2)
	a.Seen.Begin("x.2", a.Turn)
	a.Seen.record(called("failed", 2, "x"))
	a.Bytes.Objects = append(a.Bytes.Objects, store.Object{Hash: dag.Sum([]byte("another turn\nfails\n")),
		Data: []byte("another turn\nfails\n")}) // the attempt keeps its log
	entries := s.keep(t, a)
	if diff := cmp.Diff([]string{"tool-1", "tool-1-2-1"}, ids(entries)); diff != "" {
		t.Fatalf("-want +got\n%s", diff)
	}
	one, two, three := 1, 2, 3
	want := [][]thread.EvidenceSource{
		{{EventsRef: log.Hash, StartLine: &one, EndLine: &three, Hash: dag.Sum([]byte("begins\nbetween\nends\n"))}},
		{{EventsRef: dag.Sum([]byte("another turn\nfails\n")), StartLine: &two, EndLine: &two}},
	}
	for i, ev := range entries {
		if diff := cmp.Diff(want[i], ev.Sources); diff != "" {
			t.Errorf("%s: -want +got\n%s", ev.ID, diff)
		}
		if ev.Kind != thread.RuntimeEventRange || ev.Unfinished() != (i == 1) {
			t.Errorf("%s is %s, unfinished: %v", ev.ID, ev.Kind, ev.Unfinished())
		}
	}
}

func TestArtifactsThatAnEntryNames(t *testing.T) {
	a, b := dag.Sum([]byte("a")), dag.Sum([]byte("b"))
	r := &recorder{Answer: Answer{Desk: atDesk{}, Names: []string{"r.md", "d/r.md"}, Nodes: []dag.Hash{a, b}}}
	for _, tt := range []struct {
		text string
		want []dag.Hash
	}{
		{`echo > "$PLAIT_ARTIFACTS/r.md"`, []dag.Hash{a}},
		{`echo > "$PLAIT_ARTIFACTS"/r.md; cat ${PLAIT_ARTIFACTS}/d/r.md`, []dag.Hash{a, b}},
		{"cp x /desk/artifacts/d/r.md", []dag.Hash{b}},
		{"cp x /desk/artifacts/r.md.bak", []dag.Hash{}},
		{"cp x /desk/artifacts/r.md.bak /desk/artifacts/r.md", []dag.Hash{a}},
		{"cat r.md", []dag.Hash{}},
	} {
		if diff := cmp.Diff(tt.want, r.named(tt.text)); diff != "" {
			t.Errorf("%s: -want +got\n%s", tt.text, diff)
		}
	}
}

// atDesk is a desk whose artifacts are in a known directory.
type atDesk struct{ housetest.BareDesk }

func (atDesk) Agent() agent.Desk { return agent.Desk{Artifacts: "/desk/artifacts"} }
