package control

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/view"
)

// outcomes lists what the journal records about how instances began and ended their work, each
// with its final state in the roster.
func (h *house) outcomes(row store.Thread) (told []string, roster map[string]string) {
	h.t.Helper()
	events, err := h.store.Events(h.t.Context(), 0, store.EventFilter{Task: row.Task})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, ev := range events {
		if what, ok := strings.CutPrefix(ev.Type, "agent."); ok && what != "item" {
			name, _, _ := strings.Cut(ev.Instance, "-"+row.Task)
			told = append(told, name+" "+what)
		}
	}
	r, err := (&view.Reader{Store: h.store, Nodes: h.controller().Reader()}).TaskRecord(h.t.Context(), row.Task, false)
	if err != nil {
		h.t.Fatal(err)
	}
	roster = map[string]string{}
	for _, m := range r.Task().Roster {
		roster[m.Instance] = string(m.State)
	}
	return told, roster
}

// TestOutcomesOfInstances: how an instance's work ended is recorded once, and the roster agrees.
func TestOutcomesOfInstances(t *testing.T) {
	broken := func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
		return agent.Result{}, &agent.Failure{Kind: agent.Infra, Message: "no model"}
	}
	again := func(h *house, row store.Thread) { h.drive(h.controller(), row.ID, Resume{}) }
	cancel := func(h *house, row store.Thread) {
		if _, err := h.controller().Cancel(h.t.Context(), row.ID); err != nil {
			h.t.Error(err)
		}
	}
	for _, tt := range []struct {
		name  string
		agent scripted
		then  func(*house, store.Thread) // after the first run
		told  []string
		state string
	}{
		{"done", say(status("done")), nil, []string{"started", "completed"}, "completed"},
		{"every try fails", broken, nil, []string{"started", "failed"}, "failed"},
		{"it gave up, and then is not wanted", broken, cancel, []string{"started", "failed", "cancelled"}, "cancelled"},
		{"it suspends", say(`{"$status":"$SUSPEND","reason":"which?"}`), again, []string{"started", "blocked"}, "blocked"},
		{"an approval that nobody gives", asks(""), again, []string{"started", "blocked"}, "blocked"},
		{"the vendor's limit", func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
			return agent.Result{}, &agent.Failure{Kind: agent.Limit, Message: "come back tomorrow"}
		}, nil, []string{"started", "blocked"}, "blocked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t, map[string]scripted{"work": tt.agent})
			row := h.run(one("read", ""))
			if tt.then != nil {
				tt.then(h, row)
			}
			told, roster := h.outcomes(row)
			var want []string
			for _, what := range tt.told {
				want = append(want, "work "+what)
			}
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("told: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(map[string]string{"work": tt.state}, roster); diff != "" {
				t.Errorf("roster: -want +got\n%s", diff)
			}
		})
	}
}

// TestOutcomeOfCancelled: an agent that is stopped because its task is no longer wanted is cancelled, once.
func TestOutcomeOfCancelled(t *testing.T) {
	var h *house
	h = newHouse(t, map[string]scripted{"work": func(ctx context.Context, _ agent.Request,
		_ func(agent.Event) error) (agent.Result, error) {
		if _, err := h.controller().Cancel(context.Background(), rootID); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
	}})
	row := h.run(one("read", ""))
	wantStatus(t, row, store.Cancelled, "")
	told, roster := h.outcomes(row)
	if diff := cmp.Diff([]string{"work started", "work cancelled"}, told); diff != "" {
		t.Errorf("told: -want +got\n%s", diff)
	}
	if roster["work"] != "cancelled" {
		t.Errorf("roster: %v", roster)
	}
}

// TestOutcomesOfActions: the outcomes of a plan's agents. A failed path has an agent that failed; an
// action that asks is blocked.
func TestOutcomesOfActions(t *testing.T) {
	h := newHouse(t, map[string]scripted{
		"planner": plans(actions("", act("a", ""), act("b", `, "mode": "fork"`), act("c", ""))),
		"a":       output("blocked", "Which of both?"),
		"b": func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
			return agent.Result{}, &agent.Failure{Kind: agent.Refused, Message: "no"}
		},
		"c": output("success", "C is done."),
	})
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{})
	told, roster := h.outcomes(row)
	count := map[string]int{}
	for _, what := range told {
		name, state, _ := strings.Cut(what, " ")
		count[name[:1]+" "+state]++
	}
	want := map[string]int{"p started": 1, "p completed": 1, "a started": 1, "a blocked": 1, "b started": 1,
		"b failed": 1, "c started": 1, "c completed": 1}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("told: -want +got\n%s", diff)
	}
	states := map[string]string{"planner": "completed", "a": "blocked", "b": "failed", "c": "completed"}
	if diff := cmp.Diff(states, roster); diff != "" {
		t.Errorf("roster: -want +got\n%s", diff)
	}
}
