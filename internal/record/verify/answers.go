package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

// checkAnswers compares what people answered, as the rows of gates say, with the steps that used it. A step names the
// answers given at the node it follows, so an answer that was changed or removed later is missing, and one that was
// added has no step. Steps of older versions name none: of their flows' gates only what the step holds is compared.
func (k *threadIndex) checkAnswers(ctx context.Context) error {
	if !k.answers {
		return nil
	}
	known := map[dag.Hash]bool{}
	asked := map[string]map[dag.Hash]bool{} // by thread: where it asked
	for _, answers := range k.said.gates {
		for _, answer := range answers {
			known[answer] = true
		}
	}
	for _, g := range k.gates {
		known[thread.ApprovalHash(g)] = true
		if asked[g.Thread] == nil {
			asked[g.Thread] = map[dag.Hash]bool{}
		}
		asked[g.Thread][g.From] = true
		if len(k.said.gates[g.ID]) > 0 {
			k.redacted++
			continue
		}
		k.checkBound(g)
		k.checkSignature(ctx, g)
	}
	for _, t := range k.threads {
		own := func(o *object, d *thread.Detail) bool {
			return strings.HasPrefix(d.Attempt, t.ID+".") || asked[t.ID][decisionNode(o.state)]
		}
		if k.ownsAnswers(t) {
			own = func(*object, *thread.Detail) bool { return true }
		}
		if err := k.checkNamed(ctx, t, known, own); err != nil {
			return err
		}
	}
	for _, g := range k.gates {
		if t, ok := k.byID[g.Thread]; ok && thread.Decided(g) && len(k.said.gates[g.ID]) == 0 {
			steps := k.followers(g.From)
			for _, o := range slices.Clone(steps) {
				steps = append(steps, k.joins[o.hash]...)
			}
			k.checkUsed(t, g, append(steps, k.joins[g.From]...))
		}
	}
	return nil
}

// ownsAnswers reports whether all answers that a thread's steps name must be among the gates. A path that a fork took
// over has steps of the tasks that were forked.
func (k *threadIndex) ownsAnswers(t store.Thread) bool {
	if t.Path == nil {
		return true
	}
	root, ok := k.byID[t.Root]
	for ok && root.ForkedFrom != nil {
		if t, ok = k.byID[root.ForkedFrom.Thread]; ok {
			root, ok = k.byID[t.Root]
		}
	}
	return ok
}

// checkBound compares an action that was approved, and the one that was approved instead, with the digests to which
// the approval is bound: SHA-256 of {action, thread} in canonical form.
func (c *check) checkBound(g store.Gate) {
	for _, x := range []struct {
		what   string
		action json.RawMessage
		digest dag.Hash
	}{{"action", g.Action, g.Digest}, {"edited action", g.Edited, g.EditedDigest}} {
		if len(x.action) == 0 || string(x.action) == "null" {
			continue // a question, which has none
		}
		text, err := dag.Marshal(map[string]any{"action": x.action, "thread": g.Thread})
		if err != nil || dag.Sum(text) != x.digest {
			c.wrong(x.digest, "gate %s: its %s is not the one that its digest is of", g.ID, x.what)
		}
	}
}

// checkSignature checks the signature of an answer, if it has one, and counts it for its key.
func (c *check) checkSignature(ctx context.Context, g store.Gate) {
	if g.Signature == "" {
		return
	}
	signed, key, err := history.OpenApproval(g)
	if err == nil && c.cfg.Counts != nil {
		err = c.cfg.Counts(ctx, key, time.UnixMilli(signed.At))
	}
	if err != nil {
		c.wrong(g.Digest, "gate %s: the signature of its answer does not count: %v", g.ID, err)
		return
	}
	if c.signed == nil {
		c.signed = map[string]int{}
	}
	c.signed[sshsig.Fingerprint(key)]++
}

// checkNamed checks that the answers which steps of a thread name are known. own reports whether a step is its own.
func (c *check) checkNamed(ctx context.Context, t store.Thread, known map[dag.Hash]bool,
	own func(*object, *thread.Detail) bool) error {
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
		if d, ok := c.sound(o.state.Detail); ok && d.detail != nil && own(o, d.detail) {
			for _, answer := range d.detail.Approvals.Hashes {
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
	var after *object // the step that should name it
	for _, o := range steps {
		if on, _ := c.passesThrough(t.Head, o.hash, false); !on && t.Head != o.hash {
			continue
		}
		d, ok := c.sound(o.state.Detail)
		switch {
		case !ok || d.detail == nil:
			return
		case !d.detail.Approvals.Present:
			c.checkHeld(g, o, d.detail)
			return
		case slices.Contains(d.detail.Approvals.Hashes, thread.ApprovalHash(g)):
			return
		case after == nil && thread.Routed(o.state.Role):
			after = o
		}
	}
	// An agent may go on without an answer, and use one for the session at a later step.
	takes := g.UsedAt != 0 && g.Grant != store.GrantSession || g.Kind == store.GateInput ||
		g.Source == store.SourceFlow || g.Source == store.SourceWorker
	if after != nil && takes {
		c.wrong(after.hash, "state of %s: gate %s was %s before it, and it does not name that answer", after.state.Role, g.ID,
			g.State)
	}
}

// checkHeld compares the answer to a gate of the flow with the step of an older version that holds it.
func (c *check) checkHeld(g store.Gate, o *object, d *thread.Detail) {
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
	by := ""
	if d.By != nil {
		by = *d.By
	}
	for _, x := range []struct{ what, row, step string }{
		{"answer", g.Text, meta.Answer}, {"outcome", status, meta.Status}, {"author", g.By, by},
		{"time", fmt.Sprint(g.AnsweredAt), fmt.Sprint(d.EndedAt)},
	} {
		if x.row != x.step {
			c.wrong(o.hash, "state of %s: gate %s has another %s than the step that holds it", o.state.Role, g.ID, x.what)
		}
	}
}
