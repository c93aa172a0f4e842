package control

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// A manual fork at a plan carries out the plan again, and what its actions write is
// merged as if for the first time.
func TestAForkAtAPlanIsMerged(t *testing.T) {
	t.Parallel()
	h := twoWriters(t, edits("a", "one\n"), edits("b", "two\n"))
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{Options: Options{Merge: MergeKeep}})
	wantStatus(t, row, store.Completed, "")
	fork, err := c.Fork(t.Context(), Fork{Thread: row.ID, At: "1", Options: Options{Merge: MergeAuto}})
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, h.drive(h.controller(), fork.ID, Resume{}), store.Completed, "")
	if h.read("a") != "one\n" || h.read("b") != "two\n" {
		t.Errorf("a holds %q, b %q", h.read("a"), h.read("b"))
	}
}

// What a path has written before it is joined again is merged, too.
func TestRejoiningMerges(t *testing.T) {
	agents := surveyAgents()
	agents["api"], agents["more"] = writesFile("f", "of api"), writesFile("g", "of more")
	h := newHouse(t, agents)
	h.repository()
	h.options.Merge = MergeKeep
	row := h.run(writing("api", "more"))
	wantStatus(t, row, store.Completed, "")
	fork, err := h.controller().Fork(t.Context(), Fork{Thread: h.below(row)["a"].ID, At: "2", Rejoin: true,
		Options: Options{Merge: MergeAuto}})
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, h.drive(h.controller(), fork.ID, Resume{}), store.Completed, "")
	if h.read("f") != "of api" || h.read("g") != "of more" {
		t.Errorf("f holds %q, g %q", h.read("f"), h.read("g"))
	}
}

var cited = regexp.MustCompile(`evidence:[a-z0-9-]+\.[a-z0-9-]+`)

// proves is a worker that cites its own evidence.
func proves(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	return say(`{"status": "success", "summary": "See evidence:place.",
		"evidence": [{"id": "place", "kind": "file-anchor", "title": "here", "path": "a", "startLine": 1, "endLine": 1}]}`)(ctx, req, emit)
}

// The planner is told of the evidence of an action by a name that it can cite and pass on,
// whichever try of the action it is from.
func TestEvidenceOfALaterTryIsCited(t *testing.T) {
	var given string
	tries := 0
	h := newHouse(t, nil)
	h.file("a", "1\n")
	h.agents = map[string]scripted{
		"planner": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			c := cited.FindString(req.Prompt[max(strings.Index(req.Prompt, "each action came to"), 0):])
			return plans(actions("", act("look", "")), actions("", act("then", `, "inputs": ["`+c+`"]`)), finish)(ctx,
				req, emit)
		},
		"look": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			if tries++; tries == 1 {
				return output("failed", "no way")(ctx, req, emit)
			}
			return proves(ctx, req, emit)
		},
		"then": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			given = req.Prompt
			return output("success", "fine")(ctx, req, emit)
		},
	}
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{})
	wantStatus(t, row, store.Blocked, "join")
	row = h.drive(c, row.ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if h.runs["planner"] != 3 || !strings.Contains(given, ": here (file-anchor)") {
		t.Errorf("runs: %v; given:\n%s", h.runs, given)
	}
}

// A manual fork inherits evidence: a plan may pass it to its actions.
func TestInheritedEvidenceIsAnInput(t *testing.T) {
	var given []string
	h := newHouse(t, map[string]scripted{"look": proves})
	h.file("a", "1\n")
	h.agents["planner"] = plans(actions("", act("look", "")),
		actions("", act("then", `, "inputs": ["evidence:look.place"]`)), finish)
	h.agents["then"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
		error) {
		given = append(given, req.Prompt)
		return output("success", "fine")(ctx, req, emit)
	}
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	for _, at := range []string{"2", "3"} { // before the second plan, and after it
		fork, err := c.Fork(t.Context(), Fork{Thread: row.ID, At: at})
		if err != nil {
			t.Fatal(err)
		}
		end := h.drive(h.controller(), fork.ID, Resume{})
		wantStatus(t, end, store.Completed, "")
		h.sound(end)
	}
	if len(given) != 3 {
		t.Fatalf("it ran %d times", len(given))
	}
	for i, prompt := range given {
		if !strings.Contains(prompt, "evidence:look.place: here (file-anchor)") {
			t.Errorf("the %d. run is given:\n%s", i+1, prompt)
		}
	}
}

// beginPlanning begins a flow with a role that plans.
func (h *house) beginPlanning(c *Controller, yaml string) store.Thread {
	h.t.Helper()
	flows, ok := parse.LoadBuiltIn("orchestrate")
	if !ok {
		h.t.Fatal("there is no flow orchestrate")
	}
	found, err := Pack(housetest.Flow(h.t, yaml), flows...)
	if err != nil {
		h.t.Fatal(err)
	}
	row, err := c.Begin(h.t.Context(), Spec{Bundle: found.Bundle, Prompt: "do it", Workspace: h.dir, ID: rootID,
		Options: h.options})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { h.sound(row) })
	return row
}

// No action may have the name of a role: their agents would share a directory.
func TestAnActionIsNoRole(t *testing.T) {
	h := newHouse(t, nil)
	h.agents = map[string]scripted{
		"Lead_Planner": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
			error) {
			if strings.Contains(req.Prompt, "could not be used") {
				return say(actions("", act("b", "")))(ctx, req, emit)
			}
			return plans(actions("", act("lead-planner", "")), finish, finish)(ctx, req, emit)
		},
		"lead-planner": output("success", "x"), "b": output("success", "y"),
	}
	c := h.controller()
	h.drive(c, h.beginPlanning(c, `version: 1
name: lead
description: d
roles:
  Lead_Planner: {plan: true, description: plans}
graph:
  $START: {new: {role: Lead_Planner, prompt: go}}
  Lead_Planner: {finished: {role: $END, prompt: "{{ summary }}"}}
`).ID, Resume{})
	if h.runs["lead-planner"] != 0 || h.runs["b"] != 1 {
		t.Errorf("runs: %v", h.runs)
	}
}

// What was written stays on branches when a join fails and the planner continues, and
// the planner is told where.
func TestAFailedJoinKeepsWhatWasWritten(t *testing.T) {
	var told string
	h := twoWriters(t, edits("a", "one\n"), output("failed", "no way"))
	h.agents["planner"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
		error) {
		told = req.Prompt
		return plans(actions(`, "onFailed": "plan"`, act("one", `, "access": "write"`),
			act("two", `, "access": "write"`)), finish)(ctx, req, emit)
	}
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if got := h.branch(row, "one", "a"); got != "one\n" || h.read("a") != "1\n2\n3\n" {
		t.Errorf("the branch of one has %q, the workspace %q", got, h.read("a"))
	}
	if !strings.Contains(told, "the files of one are on branch plait/"+row.Task+"/one, not merged") {
		t.Errorf("the planner is told:\n%s", told[max(strings.Index(told, "each action came to"), 0):])
	}
}

// The evidence of a called flow's plan also has a name that its planner can cite.
func TestEvidenceOfANestedPlanIsCited(t *testing.T) {
	h := newHouse(t, nil)
	h.file("a", "1\n")
	h.agents = map[string]scripted{
		"planner": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			c := cited.FindString(req.Prompt[max(strings.Index(req.Prompt, "each action came to"), 0):])
			return plans(actions("", act("look", "")), `{"finish": {"summary": "It is so: `+c+`."}}`)(ctx, req, emit)
		},
		"look": proves,
	}
	c := h.controller()
	row := h.drive(c, h.beginPlanning(c, `version: 1
name: outer
description: d
roles:
  lead: {flow: orchestrate}
graph:
  $START: {new: {role: lead, prompt: go}}
  lead:
    done: {role: $END, prompt: over}
`).ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if h.runs["planner"] != 2 {
		t.Errorf("runs: %v", h.runs)
	}
}

// What stays on a branch is not among the files that the next fork begins with, though the
// conversation of its writer continues.
func TestWhatIsKeptIsNotInTheTree(t *testing.T) {
	h := twoWriters(t, edits("a", "one\n"), nil)
	h.agents["planner"] = plans(actions("", act("one", `, "mode": "fork", "access": "write"`)), finish)
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{Options: Options{Merge: MergeKeep}})
	wantStatus(t, row, store.Completed, "")
	tree, err := c.trees.Left(t.Context(), row.Head, dag.Hash{})
	if err != nil {
		t.Fatal(err)
	}
	if got := h.inTree(&tree, "a"); got != "1\n2\n3\n" {
		t.Errorf("the steps left a as %q", got)
	}
}

// A fork that a flow reaches again keeps what its paths write this time on separate
// branches.
func TestBranchesOfAForkInALoop(t *testing.T) {
	h := newHouse(t, map[string]scripted{
		"api": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			return writesFile("f", req.Prompt[max(strings.LastIndex(req.Prompt, "round"), 0):])(ctx, req, emit)
		},
		"db":     say(status("done")),
		"report": say(status("again"), status("done")),
	})
	h.repository()
	h.options.Merge = MergeKeep
	row := h.run(`version: 1
name: loop
roles:
  api: {description: writes, access: write}
  db: {description: reads}
  report: {description: reports}
forks:
  look:
    forkPaths:
      - {pathId: a, childNodeId: api}
      - {pathId: b, childNodeId: db}
joins:
  seen: {forkPathIds: [a, b]}
graph:
  $START: {new: {role: look, prompt: "round one"}}
  api: {done: {role: seen}}
  db: {done: {role: seen}}
  seen: {joined: {role: report, prompt: "well?"}}
  report:
    again: {role: look, prompt: "round two"}
    done: {role: $END, prompt: "over"}
`)
	wantStatus(t, row, store.Completed, "")
	steps, err := h.controller().Reader().Steps(t.Context(), row.Head)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range steps {
		if d, err := h.controller().Reader().Detail(t.Context(), s.State.Detail); err == nil && d != nil &&
			d.Merge != nil {
			for _, side := range d.Merge.Sides {
				_, name, _ := strings.Cut(side.Branch, row.Task+"/")
				got = append(got, strings.TrimSpace(h.branch(row, name, "f")))
			}
		}
	}
	if diff := cmp.Diff([]string{"round one", "round two"}, got); diff != "" {
		t.Errorf("what the branches hold: -want +got\n%s", diff)
	}
}

// A manual fork of an action whose worktree was removed has its own.
func TestAForkOfAMergedAction(t *testing.T) {
	for _, mode := range []string{"spawn", "fork"} {
		for _, at := range []string{"0", "1"} {
			t.Run(mode+" at "+at, func(t *testing.T) {
				h := twoWriters(t, edits("a", "one\n"), edits("b", "two\n"))
				h.agents["planner"] = plans(actions("", act("one", `, "access": "write", "mode": "`+mode+`"`),
					act("two", "")), finish)
				c := h.controller()
				row := h.drive(c, h.orchestrate(c).ID, Resume{})
				wantStatus(t, row, store.Completed, "")
				h.agents["one"] = edits("a", "anew\n")
				fork, err := c.Fork(t.Context(), Fork{Thread: h.below(row)["one"].ID, At: at, Prompt: "once more"})
				if err != nil {
					t.Fatal(err)
				}
				end := h.drive(h.controller(), fork.ID, Resume{})
				wantStatus(t, end, store.Completed, "")
				h.sound(end)
				if h.runs["one"] != 2 {
					t.Errorf("runs: %v", h.runs)
				}
			})
		}
	}
}

// A forked action continues in a branch of the conversation's session, though a person
// has answered at a gate since.
func TestAForkPastAGateBranchesTheSession(t *testing.T) {
	var from *agent.Branch
	h := newHouse(t, map[string]scripted{
		"dev": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			r, err := say(status("done"))(ctx, req, emit)
			r.Session, r.Turn = "of dev", "t1"
			return r, err
		},
		"boss": plans(actions("", act("on", `, "mode": "fork"`)), finish),
		"on": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			from = req.From
			return output("success", "fine")(ctx, req, emit)
		},
	})
	h.wrap = func(a agent.Agent) agent.Agent { return forking{&sessioned{Agent: a}} }
	c := h.controller()
	row := h.drive(c, h.beginPlanning(c, `version: 1
name: gated
description: d
roles:
  dev: {description: develops}
  boss: {plan: true, description: plans}
gates:
  sure: {kind: approval, question: "Sure?"}
graph:
  $START: {new: {role: dev, prompt: go}}
  dev: {done: {role: sure}}
  sure:
    approved: {role: boss, prompt: plan}
    rejected: {role: $END, prompt: no}
  boss: {finished: {role: $END, prompt: "{{ summary }}"}}
`).ID, Resume{})
	wantStatus(t, row, store.Blocked, "gate")
	if _, err := c.Gates().Answer(t.Context(), h.theGate(c, row).ID,
		gate.Answer{Approve: true, By: "me", Via: store.ViaCLI}); err != nil {
		t.Fatal(err)
	}
	row = h.drive(h.controller(), row.ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if from == nil || from.Session != "of dev" {
		t.Errorf("it branches off from %+v", from)
	}
}
