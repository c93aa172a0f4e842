package control

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
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

// TestActionsEndAlikeEverywhere checks that the journal, the roster and the timeline say the same of an action, whatever
// its agent answered.
func TestActionsEndAlikeEverywhere(t *testing.T) {
	ask := `{"status": "blocked", "summary": "which port?", "questions": ["which port?"]}`
	h := newHouse(t, map[string]scripted{
		"planner": plans(actions(`, "join": {"joinStrategy": "ANY_COMPLETED", "losers": "wait"}`, act("good", ""),
			act("bad", ""), act("badfork", `, "mode": "fork"`), act("asks", "")), finish),
		"good": output("success", "fine"), "bad": output("failed", "no way"), "badfork": output("failed", "no"),
		"asks": say(ask),
	})
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{})
	wantStatus(t, row, store.Blocked, "child")
	told, roster := h.outcomes(row)
	want := map[string]string{"good": "completed", "bad": "failed", "badfork": "failed", "asks": "blocked",
		"planner": "completed"}
	if diff := cmp.Diff(want, roster); diff != "" {
		t.Errorf("roster: -want +got\n%s", diff)
	}
	for id, state := range want {
		name := func(s string) bool { return strings.HasPrefix(s, id) && strings.HasSuffix(s, " "+state) }
		if !slices.ContainsFunc(told, name) {
			t.Errorf("the journal does not say that %s is %s: %v", id, state, told)
		}
	}
	if _, err := c.Cancel(t.Context(), row.ID); err != nil {
		t.Fatal(err)
	}
	if _, roster = h.outcomes(row); roster["asks"] != "cancelled" || roster["bad"] != "failed" {
		t.Errorf("once the task is cancelled: %v", roster)
	}
	reader := &view.Reader{Store: h.store, Nodes: c.Reader()}
	task, err := reader.Record(t.Context(), row)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := reader.Timeline(t.Context(), task, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range tl.Lanes {
		for _, b := range l.Bars {
			if failed := b.State == view.DisplayFailed; failed != (want[b.Role] == "failed") {
				t.Errorf("the timeline has %s as %s", b.Role, b.State)
			}
		}
	}
}
