package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// checkAnswers compares what people answered, as the rows of gates say, with the steps that used it. A step names the
// answers given at the node it follows, so an answer that was changed or removed later is missing, and one that was
// added has no step. Steps of older versions name none: of their flows' gates only what the step holds is compared.
func (c *check) checkAnswers(ctx context.Context, r rows, after map[dag.Hash][]*object) error {
	if !r.answers {
		return nil
	}
	known := map[dag.Hash]bool{}
	rows := map[string]store.Thread{}
	for _, g := range r.gates {
		known[thread.ApprovalHash(g)] = true
	}
	for _, t := range r.threads {
		rows[t.ID] = t
	}
	for _, t := range r.threads {
		if !c.ownsAnswers(t, rows) {
			continue
		}
		if err := c.checkNamed(ctx, t, known); err != nil {
			return err
		}
	}
	joins := map[dag.Hash][]*object{}
	for _, o := range c.objects {
		if o.reached && o.problem == nil && o.state != nil && o.state.Paths != nil {
			joins[o.state.Fork] = append(joins[o.state.Fork], o)
		}
	}
	for _, g := range r.gates {
		if t, ok := rows[g.Thread]; ok && thread.Decided(g) {
			c.checkUsed(t, g, slices.Concat(followers(after, g.From), joins[g.From]))
		}
	}
	return nil
}

// ownsAnswers reports whether the answers that a thread's steps name must be among rows. A path that a fork took over
// has steps of the task that was forked.
func (c *check) ownsAnswers(t store.Thread, rows map[string]store.Thread) bool {
	for t.Path != nil {
		root, ok := rows[t.Root]
		if !ok || root.ForkedFrom == nil {
			return ok
		}
		if t, ok = rows[root.ForkedFrom.Thread]; !ok {
			return false
		}
	}
	return true
}

// checkNamed checks that the answers which a thread's own steps name are known.
func (c *check) checkNamed(ctx context.Context, t store.Thread, known map[dag.Hash]bool) error {
	begin := t.Start
	switch {
	case t.ForkedFrom != nil:
		begin = t.ForkedFrom.Step
	case t.Kind == store.KindPath && t.Path != nil:
		begin = t.Path.Fork
	}
	for h := t.Head; h != begin; {
		o, ok := c.sound(h)
		if !ok || o.state == nil {
			return nil
		}
		if d, ok := c.sound(o.state.Detail); ok && d.detail != nil {
			for _, answer := range d.detail.answers.Hashes {
				if known[answer] {
					continue
				}
				if _, err := c.cfg.Store.Thread(ctx, t.ID); errors.Is(err, store.ErrNotFound) {
					return nil // it was removed meanwhile
				}
				c.wrong(o.hash, "state of %s: it was made with an answer that is not in the record now: changed, or removed",
					o.state.Role)
			}
		}
		h = decisionNode(o.state)
	}
	return ctx.Err()
}

// checkUsed checks that a gate whose answer took effect is named by a step of its thread. steps may follow it.
func (c *check) checkUsed(t store.Thread, g store.Gate, steps []*object) {
	var moved *object // the step that should name it
	for _, o := range steps {
		if on, _ := c.passesThrough(t.Head, o.hash, false); !on && t.Head != o.hash {
			continue
		}
		d, ok := c.sound(o.state.Detail)
		switch {
		case !ok || d.detail == nil:
			return
		case !d.detail.answers.Present:
			c.checkHeld(g, o, d.detail)
			return
		case slices.Contains(d.detail.answers.Hashes, thread.ApprovalHash(g)):
			return
		case moved == nil && thread.Routed(o.state.Role):
			moved = o
		}
	}
	asked := g.Kind == store.GateInput || g.Source == store.SourceFlow || g.Source == store.SourceWorker
	if moved != nil && (g.UsedAt != 0 || asked) {
		c.wrong(moved.hash, "state of %s: gate %s was %s before it, and it does not name that answer", moved.state.Role, g.ID,
			g.State)
	}
}

// checkHeld compares the answer to a gate of the flow with the step of an older version that holds it.
func (c *check) checkHeld(g store.Gate, o *object, d *detail) {
	if g.Source != store.SourceFlow || o.state.Role != g.Node {
		return
	}
	var meta struct {
		Status string `json:"$status"`
		Answer string `json:"answer"`
	}
	if json.Unmarshal(o.state.Meta, &meta) != nil {
		return
	}
	status := string(g.State)
	if g.State == store.GateExpired {
		status = g.OnTimeout
	}
	for _, x := range []struct{ what, row, step string }{
		{"answer", g.Text, meta.Answer}, {"outcome", status, meta.Status}, {"author", g.By, d.by},
		{"time", fmt.Sprint(g.AnsweredAt), fmt.Sprint(d.to)},
	} {
		if x.row != x.step {
			c.wrong(o.hash, "state of %s: gate %s has another %s than the step that holds it", o.state.Role, g.ID, x.what)
		}
	}
}
