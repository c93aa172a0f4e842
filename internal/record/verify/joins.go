package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// checkJoinNode compares a join with its fork and paths, as far as that is possible without its flow.
func (c *check) checkJoinNode(o *object) {
	s := o.state
	if s.Paths == nil {
		if !s.Fork.IsZero() {
			c.wrong(o.hash, "state of %s: has a fork but no paths", s.Role)
		}
		return
	}
	if s.Fork.IsZero() || len(s.Paths) == 0 {
		c.wrong(o.hash, "join %s: has no fork or no paths", s.Role)
		return
	}
	if fork, ok := c.sound(s.Fork); ok && s.Fork != s.Start && (fork.state == nil || fork.state.Start != s.Start) {
		c.wrong(o.hash, "join %s: its fork %s is no step of its thread", s.Role, s.Fork)
	}
	known := s.Previous() == s.Fork
	for _, p := range s.Paths {
		known = known || p.Head == s.Previous()
		if p.Head.IsZero() || !c.mayPassThrough(p.Head, s.Fork, true) {
			c.wrong(o.hash, "join %s: path %s at %s does not come from the fork %s", s.Role, p.ID, p.Head, s.Fork)
		}
		switch p.Status {
		case store.Completed, store.Failed, store.Cancelled:
		default:
			c.wrong(o.hash, "join %s: path %s has the status %q, which no ended path can have", s.Role, p.ID, p.Status)
		}
	}
	if !known {
		c.wrong(o.hash, "join %s: its parent %s is neither the head of a path nor the fork", s.Role, s.Previous())
	}
}

// joinMeta is the meta of a join.
type joinMeta struct {
	Status    *string `json:"$status"`
	DecidedBy *string `json:"decidedBy"`
	Paths     map[string]struct {
		Status  string             `json:"status"`
		Meta    json.RawMessage    `json:"meta"`
		Failure *store.FailureKind `json:"failure"` // absent in joins written before schema 4
	} `json:"paths"`
}

// by returns the id of the path whose end decided the join, or "".
func (g joinMeta) by() string {
	if g.DecidedBy == nil {
		return ""
	}
	return *g.DecidedBy
}

// A joinCheck checks one join step.
type joinCheck struct {
	*check
	*thread.State
	def   *flow.Definition
	fork  flow.Fork
	rule  flow.JoinSpec
	meta  joinMeta
	wrong []string
}

func (j *joinCheck) say(format string, args ...any) {
	j.wrong = append(j.wrong, fmt.Sprintf("join %s: ", j.Role)+fmt.Sprintf(format, args...))
}

// checkJoin compares a join with its flow: its paths and their order, where each path ended, what the join
// records about them, whether its rule allows the outcome, and which path it follows.
func (c *check) checkJoin(ctx context.Context, o *object, def *flow.Definition) ([]string, error) {
	j := &joinCheck{check: c, State: o.state, def: def}
	if _, ok := def.Joins[j.Role]; !ok && j.Role != thread.RoleJoin {
		j.say("flow %s has no such join", def.Name)
		return j.wrong, nil
	}
	def = c.definitionAt(j.Start, o.chain.position)
	d, ok, err := c.next(ctx, def, j.Fork, j.Start, o.chain.position.path)
	if err != nil || !ok {
		return nil, err
	}
	if d, ok := d.(flow.Fork); ok && d.Join == j.Role {
		j.fork, j.rule = d, d.Rule
	} else {
		j.say("flow %s does not lead to the paths of this join at its fork %s", j.def.Name, j.Fork)
		if j.rule, ok = j.def.Joins[j.Role]; !ok {
			return j.wrong, nil
		}
		j.fork = flow.Fork{ForkSpec: flow.ForkSpec{Join: j.Role}, Rule: j.rule}
	}
	if ids := ids(j.Paths); !slices.Equal(ids, j.rule.PathIDs) {
		j.say("its paths are [%s], those of flow %s are [%s]", strings.Join(ids, " "), j.def.Name,
			strings.Join(j.rule.PathIDs, " "))
		return j.wrong, nil
	}
	for _, p := range j.Paths {
		if !j.inherits(p.ID) {
			j.checkSpawned(p)
			continue
		}
		if err := j.checkPath(ctx, o, p); err != nil {
			return nil, err
		}
	}
	dec := json.NewDecoder(bytes.NewReader(j.Meta))
	dec.DisallowUnknownFields()
	if dec.Decode(&j.meta) != nil || j.meta.Status == nil {
		j.say("its meta is not {$status, decidedBy, paths}")
		return j.wrong, nil
	}
	if err := j.checkMeta(ctx); err != nil {
		return nil, err
	}
	j.checkOutcome()
	return j.wrong, nil
}

func ids(paths []thread.PathHead) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = p.ID
	}
	return out
}

// inherits reports whether a path shares its parent's conversation; spawned actions
// do not.
func (j *joinCheck) inherits(id string) bool {
	if j.fork.Plan == nil {
		return true
	}
	a, _ := j.fork.Plan.Action(id)
	return a.Mode == flow.Forked
}

// checkPath checks that a path ended within itself, and at the join if it is completed.
func (j *joinCheck) checkPath(ctx context.Context, o *object, p thread.PathHead) error {
	if p.Head == j.Fork {
		if p.Status == store.Completed {
			j.say("path %s is completed without a step", p.ID)
		}
		return nil
	}
	head, ok := j.sound(p.Head)
	if !ok {
		return nil
	}
	switch {
	case head.state == nil || head.state.Start != j.Start || !j.mayPassThrough(p.Head, j.Fork, false):
		j.say("path %s at %s does not come from the fork %s", p.ID, p.Head, j.Fork)
		return nil
	case head.state.Role == thread.RoleEnd:
		j.say("path %s has an end of its own", p.ID)
		return nil
	case head.chain.position == nil:
		return nil
	case head.chain.position.path != p.ID || head.chain.position.outer != o.chain.position:
		j.say("path %s at %s is not in this path of flow %s", p.ID, p.Head, j.def.Name)
		return nil
	}
	arrived, ok, err := j.reachesJoin(ctx, head, j.Fork, p.ID, j.Role)
	switch {
	case err != nil || !ok:
		return err
	case arrived && p.Status == store.Failed:
		j.say("path %s is failed, but has reached its join", p.ID)
	case !arrived && p.Status == store.Completed:
		j.say("path %s is completed, but has not reached its join", p.ID)
	}
	return nil
}

// reachesJoin reports whether the join follows head in a path of a fork. ok is false if that is unknown.
func (c *check) reachesJoin(ctx context.Context, head *object, fork dag.Hash,
	path, join string) (arrived, ok bool, err error) {
	def := c.defs[head.state.Start]
	if join == thread.RoleJoin {
		def = nil
		if c.plans[fork] != nil {
			def = c.plans[fork].fork[path]
		}
	}
	if def == nil {
		return false, false, nil
	}
	d, ok, err := c.next(ctx, def, head.hash, head.state.Start, path)
	if err != nil || !ok {
		return false, false, err
	}
	at, arrived := d.(flow.AtJoin)
	return arrived && at.Join == join, true, nil
}

// checkMeta compares the join's meta and content with those computed from its paths. It rebuilds the join, and
// looks for the difference only if there is one.
func (j *joinCheck) checkMeta(ctx context.Context) error {
	draft := thread.JoinDraft{Node: j.Role, Outcome: *j.meta.Status, DecidedBy: j.meta.by()}
	var err error
	if draft.Paths, draft.Older, err = record.NewSteps(soundNodes{j.check}).PathEnds(ctx, j.State); err != nil {
		return j.fatal(ctx, err)
	}
	join := func() (thread.Change, error) {
		return thread.Join(store.Thread{Head: j.Fork}, thread.Tip{Head: j.Previous()}, 0, draft)
	}
	want, err := join()
	if err != nil {
		return nil // meta that cannot be joined was already reported for its step
	}
	if !draft.Older {
		j.checkFailures(draft.Paths)
	}
	if !bytes.Equal(want.Step.State.Meta, j.Meta) {
		var expected joinMeta
		if json.Unmarshal(want.Step.State.Meta, &expected) != nil {
			return nil
		}
		before := len(j.wrong)
		for id, p := range expected.Paths {
			switch have, ok := j.meta.Paths[id]; {
			case !ok:
				j.say("its meta has no path %s", id)
			case have.Status != p.Status:
				j.say("its meta says that path %s is %q, its paths %q", id, have.Status, p.Status)
			case have.Failure != nil && (p.Failure == nil || *have.Failure != *p.Failure):
				j.say("its meta says that path %s failed with %q, but it is %s", id, *have.Failure, p.Status)
			case have.Failure == nil && p.Failure != nil:
				j.say("its meta does not say why path %s failed", id)
			case !bytes.Equal(have.Meta, p.Meta):
				j.say("its meta of path %s is not the meta of the path's last step, %s", id, p.Meta)
			}
		}
		for id := range j.meta.Paths {
			if _, ok := expected.Paths[id]; !ok {
				j.say("its meta has a path %s, which it does not join", id)
			}
		}
		if len(j.wrong) == before {
			j.say("its meta is not {$status, decidedBy, paths}")
		}
	}
	if want.Step.State.Content == j.Content {
		return nil
	}
	draft.Pointing = !draft.Older
	if want, err = join(); err != nil || want.Step.State.Content != j.Content {
		j.say("its content is not what its paths said")
	}
	return nil
}

// checkFailures compares the failures of paths in the join's detail with the kinds in its meta.
func (j *joinCheck) checkFailures(paths []thread.PathEnd) {
	o, ok := j.sound(j.Detail)
	if !ok || o.detail == nil {
		return // already reported for its step
	}
	said := make(map[string]store.FailureKind, len(o.detail.Failures))
	for _, f := range o.detail.Failures {
		said[f.Path] = f.Kind
	}
	for _, p := range paths {
		id, kind := p.Row.Path.ID, p.Row.Reason.Failure
		if kind != said[id] {
			j.say("its meta says that path %s failed with %q, its detail with %q", id, kind, said[id])
		}
		delete(said, id)
	}
	for id := range said {
		j.say("its detail says why path %s failed, which it does not join", id)
	}
}

// checkOutcome checks that the join's rule allows its outcome, and that the join follows the right step. After
// joining, that is the main path's head, or failing that the head of the path that decided; otherwise it is the
// fork.
func (j *joinCheck) checkOutcome() {
	outcome, by := *j.meta.Status, j.meta.by()
	if !j.def.Continues(j.fork, outcome) {
		j.say("flow %s has no route for its $status %q", j.def.Name, outcome)
	}
	if !canResolve(j.rule, j.Paths, outcome, by) {
		named := "by no path alone"
		if by != "" {
			named = "by path " + by
		}
		j.say("its paths cannot have come to its $status %q, decidedBy %s", outcome, named)
		return
	}
	follows, whose := j.Fork, "its fork"
	if outcome == flow.Joined {
		for _, p := range j.Paths {
			if !j.inherits(p.ID) {
				continue
			}
			main := p.ID == j.rule.Main && (p.Status == store.Completed || by == "")
			if main || p.ID == by && follows == j.Fork {
				follows, whose = p.Head, "the head of path "+p.ID
			}
			if main {
				break
			}
		}
	}
	if j.Previous() != follows {
		j.say("its parent %s is not %s, %s", j.Previous(), whose, follows)
	}
}

// canResolve reports whether paths with these ends can have led to an outcome. The
// order in which paths ended is not recorded. But a rule is decided either by
// completed paths or by the others, and if any order lets one kind decide, so does
// the order in which all of that kind end first: those two orders are enough.
func canResolve(rule flow.JoinSpec, paths []thread.PathHead, outcome, by string) bool {
	completed := make(map[string]bool, len(paths))
	for _, p := range paths {
		completed[p.ID] = p.Status == store.Completed
	}
	if _, known := completed[by]; by != "" && !known {
		return false
	}
	if outcome == flow.TimedOut {
		return rule.Timeout > 0 && by == ""
	}
	for _, first := range []bool{true, false} {
		states := make([]flow.PathState, len(paths))
		for i, p := range paths {
			states[i] = flow.PathState{ID: p.ID, Status: string(p.Status)}
			if completed[p.ID] != first {
				states[i].Ended = 1
			}
		}
		r := flow.Resolve(rule, states, false)
		if r.Outcome == outcome && (r.DecidedBy == "") == (by == "") && completed[r.DecidedBy] == completed[by] {
			return true
		}
	}
	return false
}
