package control

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// Why a path failed: the kind is in the join's meta and text, and routes can use it; the message is
// in its detail and told to agents, and never in the text. The path need not have made a step.
func TestWhyAPathFailed(t *testing.T) {
	var told string
	fails := func(kind, message string) scripted {
		return func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
			return agent.Result{}, &agent.Failure{Kind: kind, Message: message}
		}
	}
	agents := surveyAgents()
	agents["db"], agents["ui"] = fails(agent.Refused, "I will not read that"), say(`{"$status": "elsewhere"}`)
	agents["report"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
		error) {
		told = req.Prompt
		return say(status("done"))(ctx, req, emit)
	}
	h := newHouse(t, agents)
	yaml := replaceOnce(withJoin("joinStrategy: SUCCESS_COUNT_THRESHOLD, threshold: 1, losers: wait"),
		`prompt: "yes"`, `prompt: "b of {{ paths.b.failure }}, c of {{ paths.c.failure }}`+
			`{% if paths.a.failure %}, a{% endif %}"`)
	row := h.run(yaml)
	wantStatus(t, row, store.Completed, "")
	h.sound(row)
	join, meta := h.joinOf(row, "seen")
	kinds := map[string]any{}
	for id, p := range meta["paths"].(map[string]any) {
		kinds[id] = p.(map[string]any)["failure"]
	}
	if diff := cmp.Diff(map[string]any{"a": nil, "b": "refused", "c": "route"}, kinds); diff != "" {
		t.Errorf("kinds in the meta: -want +got\n%s", diff)
	}
	nodes := h.controller().Reader()
	text, err := nodes.Text(t.Context(), join.State.Content)
	if err != nil {
		t.Fatal(err)
	}
	says := "## a\n\nThe API.\n\n## b\n\n(failed: refused)\n\n## c\n\n(failed: route)\n"
	if !strings.HasPrefix(text, says) {
		t.Errorf("the join says\n%s\nwant\n%s", text, says)
	}
	d, err := nodes.Detail(t.Context(), join.State.Detail)
	if err != nil {
		t.Fatal(err)
	}
	below := h.below(row)
	want := []thread.PathFailure{
		{Path: "b", Kind: store.FailureRefused, Message: "db: refused: I will not read that"},
		{Path: "c", Kind: store.FailureRoute, Message: below["c"].Reason.Message},
	}
	if diff := cmp.Diff(want, d.Failures); diff != "" {
		t.Errorf("failures in the detail: -want +got\n%s", diff)
	}
	for _, once := range []string{"I will not read that", "The API.", "b of refused, c of route\n"} {
		if n := strings.Count(told, once); n != 1 {
			t.Errorf("%q stands %d times in the prompt after the join:\n%s", once, n, told)
		}
	}
}

// What follows a join that failed may call a flow, if the fork is the first of all too.
func TestCallAfterAFailedJoin(t *testing.T) {
	h := newHouse(t, map[string]scripted{
		"try": func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
			return agent.Result{}, &agent.Failure{Kind: agent.Refused, Message: "no"}
		},
		"mender": say(status("done")),
	})
	c := h.controller()
	row := h.drive(c, h.beginFlows(c, Options{}, `
version: 1
name: outer
roles: {try: {description: tries}, repair: {flow: inner}}
forks: {split: {forkPaths: [{pathId: a, childNodeId: try}]}}
joins: {met: {forkPathIds: [a]}}
graph:
  $START: {new: {role: split, prompt: "{{ prompt }}"}}
  try: {done: {role: met}}
  met: {joined: {role: $END}, failed: {role: repair, prompt: mend it}}
  repair: {done: {role: $END}}
`, `
version: 1
name: inner
roles: {mender: {description: mends}}
graph:
  $START: {new: {role: mender, prompt: "{{ prompt }}"}}
  mender: {done: {role: $END}}
`).ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	h.sound(row)
}

// An agent that was stopped since it said nothing has not used up the time of its task.
func TestIdleIsNoLimit(t *testing.T) {
	runs := 0
	h := newHouse(t, map[string]scripted{"work": func(ctx context.Context, req agent.Request,
		emit func(agent.Event) error) (agent.Result, error) {
		if runs++; runs == 1 {
			return agent.Result{}, &agent.Failure{Kind: agent.TimedOut, Message: "it said nothing for 15m"}
		}
		return say(status("done"))(ctx, req, emit)
	}})
	row := h.run(replaceOnce(one("read", ""), "roles:", "limits: {timeout: 2h}\nroles:"))
	wantStatus(t, row, store.Completed, "")
	if runs != 2 {
		t.Errorf("it was tried %d times", runs)
	}
}
