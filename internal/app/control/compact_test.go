package control

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// longTalk is loop with a quota so small that a few texts fill it.
var longTalk = replaceOnce(loop, "version: 1\n", "version: 1\ncontext: {tokens: 200, pin: [plan]}\n")

func longAgents(said *[]string) map[string]scripted {
	agents := loopAgents()
	agents["work"] = say("---\n$status: done\n---\n" + strings.Repeat("very long work ", 60))
	agents[thread.RoleCompact] = say("The work is half done.")
	for role, a := range agents {
		agents[role] = heard(said, a)
	}
	return agents
}

// heard is an agent whose prompts are kept.
func heard(said *[]string, a scripted) scripted {
	return func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		*said = append(*said, req.Prompt)
		return a(ctx, req, emit)
	}
}

func TestCompactByHand(t *testing.T) {
	var said []string
	h := newHouse(t, longAgents(&said))
	h.agents["review"] = heard(&said, say(`{"$status":"$SUSPEND","reason":"is it good?"}`, status("good")))
	row := h.run(longTalk)
	wantStatus(t, row, store.Blocked, "input")
	before := h.digest(row)

	compacted, err := h.controller().Compact(t.Context(), Compaction{Thread: row.ID})
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, compacted, store.Blocked, "input")
	if h.digest(compacted) != before {
		t.Error("a summary changes the outcome digest")
	}
	prompt := said[len(said)-1]
	for _, want := range []string{"The plan.", "very long work", "is it good?"} {
		if !strings.Contains(prompt, want) {
			t.Errorf("%q is not in the prompt for the summary", want)
		}
	}
	head, err := h.controller().Reader().State(t.Context(), compacted.Head)
	if err != nil || head.Role != thread.RoleCompact || head.Compact != head.Content ||
		!strings.Contains(string(head.Meta), `"steps":3`) {
		t.Fatalf("head: %+v: %v", head, err)
	}
	if n := h.events(row.ID, "thread.compacted"); n != 1 {
		t.Errorf("%d events thread.compacted", n)
	}

	row = h.drive(h.controller(), row.ID, Resume{Prompt: "yes"})
	wantStatus(t, row, store.Completed, "")
	prompt = said[len(said)-1]
	if !strings.Contains(prompt, "The work is half done.") || strings.Contains(prompt, "very long work") {
		t.Errorf("the prompt after the summary:\n%s", prompt)
	}
	if !strings.Contains(prompt, "The plan.") || !strings.Contains(prompt, "do it") {
		t.Errorf("a pinned role or the task was summarised away:\n%s", prompt)
	}
	if diff := cmp.Diff([]string{"plan", "work", "review", "__compact__", "__input__", "review", "__end__"},
		h.roles(row)); diff != "" {
		t.Errorf("roles: -want +got\n%s", diff)
	}
	if _, err := h.controller().Compact(t.Context(), Compaction{Thread: row.ID}); !errors.Is(err, ErrUsage) {
		t.Errorf("an ended thread is compacted: %v", err)
	}
}

func TestFullContextIgnoresSummaries(t *testing.T) {
	var said []string
	h := newHouse(t, longAgents(&said))
	h.agents["review"] = heard(&said, say(`{"$status":"$SUSPEND","reason":"is it good?"}`, status("good")))
	row := h.run(replaceOnce(longTalk, "tokens: 200", "tokens: 20000"))
	if _, err := h.controller().Compact(t.Context(), Compaction{Thread: row.ID}); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, h.drive(h.controller(), row.ID, Resume{Prompt: "yes", Options: Options{Context: ContextFull}}), store.Completed, "")
	if prompt := said[len(said)-1]; !strings.Contains(prompt, "very long work") {
		t.Errorf("the prompt with the full context:\n%s", prompt)
	}
}

// At 90 % of the quota an agent that can summarize does so by itself; one that cannot
// is not asked, and a failed summary does not stop the work.
func TestCompactByItself(t *testing.T) {
	for _, tt := range []struct {
		name, kind string
		summary    scripted
		roles      []string
	}{
		{"a model", "codex", say("The work is half done."), []string{"plan", "work", "__compact__", "review",
			"__end__"}},
		{"a program", "replay", say("never asked"), []string{"plan", "work", "review", "__end__"}},
		{"a model that fails", "codex", fails(agent.Infra), []string{"plan", "work", "review", "__end__"}},
		{"a summary that is too long", "codex", say(strings.Repeat("very long ", 70)), []string{"plan", "work", "review", "__end__"}},
		{"an empty summary", "codex", say("  \n"), []string{"plan", "work", "review", "__end__"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var said []string
			h := newHouse(t, longAgents(&said))
			h.kind = tt.kind
			h.agents["review"] = say(status("good"))
			h.agents[thread.RoleCompact] = tt.summary
			row := h.run(longTalk)
			wantStatus(t, row, store.Completed, "")
			if diff := cmp.Diff(tt.roles, h.roles(row)); diff != "" {
				t.Errorf("roles: -want +got\n%s", diff)
			}
			for _, a := range h.attempts(row) {
				if a.Status == store.AttemptRunning {
					t.Errorf("attempt %s still runs", a.ID)
				}
			}
		})
	}
}
