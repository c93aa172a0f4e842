package control

import (
	"context"
	"errors"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A person is asked about a writer that was cut off, even though a summary could move
// its thread past it.
func TestCompactingForgetsNobodyWhoMayHaveActed(t *testing.T) {
	agents := loopAgents()
	atWork := make(chan struct{})
	agents["work"] = once(atWork, agents["work"])
	agents[thread.RoleCompact] = say("A summary.")
	h := newHouse(t, agents)
	row := h.begin(h.controller(), replaceOnce(loop, "work: {description: works}",
		"work: {description: works, access: write}"))
	h.cutOff(row, atWork)
	if _, err := h.controller().Compact(t.Context(), Compaction{Thread: row.ID}); !errors.Is(err, ErrUsage) {
		t.Errorf("compact: %v", err)
	}
	wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Blocked, "gate")
	if h.runs["work"] != 1 || h.runs[thread.RoleCompact] != 0 {
		t.Errorf("runs: %v", h.runs)
	}
	h.answer(h.gates(row.ID, 1)[0].ID, true)
	wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Completed, "")
}

// For one that only reads there is nothing to ask.
func TestWhatWasCutOffAndOnlyReadsIsCompacted(t *testing.T) {
	agents := loopAgents()
	atWork := make(chan struct{})
	agents["work"] = once(atWork, agents["work"])
	agents[thread.RoleCompact] = say("A summary.")
	h := newHouse(t, agents)
	row := h.begin(h.controller(), loop)
	h.cutOff(row, atWork)
	row, err := h.controller().Compact(t.Context(), Compaction{Thread: row.ID})
	if err != nil || row.Steps != 2 {
		t.Fatalf("%d steps: %v", row.Steps, err)
	}
	wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Completed, "")
}

// A path that continues one whose writer was cut off asks first: in the tree they share
// nothing has been put back. In its own tree it starts over.
func TestTheNextTryAsksAboutTheOneCutOff(t *testing.T) {
	for _, git := range []bool{false, true} {
		t.Run(map[bool]string{false: "in the person's tree", true: "in a worktree"}[git], func(t *testing.T) {
			agents := surveyAgents()
			atWork := make(chan struct{})
			agents["api"] = once(atWork, writesFile("f", "of a"))
			agents["db"] = after(atWork, hangs)
			h := newHouse(t, agents)
			if git {
				h.repository()
				h.options.Merge = MergeKeep
			}
			row := h.begin(h.controller(), writing("api"))
			h.cutOff(row, atWork)
			// Now the other path fails, and the one that was cut off is cancelled.
			agents["db"], agents["api"] = refused, hangs
			row = h.drive(h.controller(), row.ID, Resume{})
			wantStatus(t, row, store.Blocked, "join")
			if was := h.below(row)["a"]; was.Status != store.Cancelled {
				t.Fatalf("path a is %s", was.Status)
			}
			before := h.runs["api"]
			agents["api"], agents["db"] = writesFile("f", "of a"), yes("The database.")
			row = h.drive(h.controller(), row.ID, Resume{})
			if git {
				wantStatus(t, row, store.Completed, "")
				return
			}
			wantStatus(t, row, store.Blocked, "child")
			next := h.below(row)["a+"]
			wantStatus(t, next, store.Blocked, "gate")
			if g := h.gates(next.ID, 1)[0]; g.Source != store.SourceInterrupted || h.runs["api"] != before {
				t.Errorf("the gate: %+v; runs %v", g, h.runs)
			}
			row = h.drive(h.controller(), row.ID, Resume{Again: true})
			wantStatus(t, row, store.Completed, "")
		})
	}
}

// A failed summary does not count as a try of the work that waits.
func TestAFailedSummaryIsNoTry(t *testing.T) {
	earlier := func(h *house, row store.Thread) (n int) {
		t.Helper()
		steps, err := h.controller().Reader().Steps(t.Context(), row.Head)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			d, err := h.controller().Reader().Detail(t.Context(), s.State.Detail)
			if err != nil {
				t.Fatal(err)
			}
			if d != nil {
				n += len(d.Attempts)
			}
		}
		return n
	}
	var said []string
	tries := map[string]int{}
	agents := longAgents(&said)
	agents["review"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
		error) {
		tries["review"] = max(tries["review"], req.Try)
		return say(`{"$status":"good"}`)(ctx, req, emit)
	}
	agents[thread.RoleCompact] = fails(agent.Refused)
	h := newHouse(t, agents)
	h.kind = "codex" // codex summarizes by itself
	row := h.run(longTalk)
	wantStatus(t, row, store.Completed, "")
	if h.runs[thread.RoleCompact] == 0 {
		t.Fatal("no summary was asked for")
	}
	if n := earlier(h, row); n != 0 || tries["review"] != 1 {
		t.Errorf("steps name %d earlier attempts, the review was try %d", n, tries["review"])
	}

	// Manually, before another process continues.
	agents["review"] = say(`{"$status":"$SUSPEND","reason":"?"}`, status("good"))
	h = newHouse(t, agents)
	row = h.run(longTalk)
	wantStatus(t, row, store.Blocked, "input")
	var fail *agent.Failure
	if _, err := h.controller().Compact(t.Context(), Compaction{Thread: row.ID}); !errors.As(err, &fail) {
		t.Fatalf("compact: %v", err)
	}
	row = h.drive(h.controller(), row.ID, Resume{Prompt: "yes"})
	wantStatus(t, row, store.Completed, "")
	if n := earlier(h, row); n != 0 {
		t.Errorf("steps name %d earlier attempts", n)
	}
}
