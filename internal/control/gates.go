package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/user"
	"strings"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
)

// Gates returns the book of gates.
func (c *Controller) Gates() *gate.Book { return c.gates }

// unanswered returns why a thread must wait for a person, or nil: a question of
// an agent that was cut off is still open, or an attempt was cut off that may
// have changed things, and nobody has said that it may be made again.
func (d *drive) unanswered(ctx context.Context, row store.Thread, last *store.Attempt, again bool) (*store.Reason, error) {
	gates, err := d.gates.Gates(ctx, store.GateFilter{Thread: row.ID})
	if err != nil {
		return nil, fmt.Errorf("resume thread %s: %w", row.ID, err)
	}
	asked := false // a person has dealt with what the attempt wanted to do
	for _, g := range gates {
		if g.From == row.Head && (g.Source == store.SourceFlow || g.Source == store.SourceWorker) && g.State == store.GateOpen {
			why := engine.Asks(g)
			return &why, nil
		}
		if g.From == row.Head && g.Source == store.SourceMerge && g.State == store.GateOpen {
			return asksMerge(g), nil
		}
		if g.From != row.Head || g.Source != store.SourceAgent {
			continue
		}
		if g.State == store.GateOpen {
			why := engine.Unanswered(g)
			return &why, nil
		}
		// What was done with a permission is done: a tree of its own is put back all the same.
		used := g.UsedAt != 0 && ownTree(row)
		asked = asked || last != nil && g.Attempt == last.ID && g.State != store.GateWithdrawn && !used
	}
	if asked || last == nil || last.Status != store.AttemptInterrupted || last.Failure == nil || last.Failure.Message == engine.NotBegun {
		return nil, nil
	}
	def, err := d.engine.Definition(ctx, row)
	if err != nil {
		return nil, err
	}
	if engine.Repeatable(def.Roles[last.Role]) {
		return nil, nil
	}
	if def.Roles[last.Role].Retry.Interrupted == nil {
		if back, err := d.putBack(ctx, row, *last); err != nil || back {
			return nil, err
		}
	}
	return d.mayHaveActed(ctx, row, *last, again)
}

// mayHaveActed asks whether an attempt that was cut off, and may have changed
// things, may be made once more.
func (c *Controller) mayHaveActed(ctx context.Context, row store.Thread, last store.Attempt, again bool) (*store.Reason, error) {
	fail := func(err error) error { return fmt.Errorf("resume thread %s: %w", row.ID, err) }
	params, err := json.Marshal(map[string]string{"attempt": last.ID, "role": last.Role})
	if err != nil {
		return nil, fail(err)
	}
	action, err := json.Marshal(gate.Action{Type: gate.Attempt, Params: params})
	if err != nil {
		return nil, fail(err)
	}
	g := store.Gate{
		Kind: store.GateApproval, Source: store.SourceInterrupted, Task: row.Task, Thread: row.ID, Node: last.Role, Instance: last.Instance,
		Attempt: last.ID, From: row.Head, Options: []string{"approve", "deny"}, Action: action,
		Question: fmt.Sprintf("attempt %s of %s was cut off and may have acted. Look at what it did: may it be made once more?", last.ID, last.Role),
	}
	if g.Digest, err = gate.Digest(row.ID, action); err != nil {
		return nil, fail(err)
	}
	standing, ok, err := c.gates.Standing(ctx, row.ID, row.Head, g.Digest)
	if err == nil && !ok {
		standing, err = c.gates.Open(ctx, g)
	}
	if err == nil && again && standing.State == store.GateOpen {
		standing, err = c.gates.Answer(ctx, standing.ID, gate.Answer{Approve: true, By: person(), Via: store.ViaCLI, Text: "resume --again"})
	}
	if err != nil {
		return nil, fail(err)
	}
	switch {
	case standing.State == store.GateApproved:
		if _, err := c.gates.Use(ctx, standing); err != nil && !errors.Is(err, store.ErrConflict) {
			return nil, fail(err)
		}
		return nil, nil
	case standing.State == store.GateOpen:
		return &store.Reason{Kind: store.ReasonGate, Message: fmt.Sprintf(
			"attempt %s of %s was cut off and may have acted; look at what it did, then: plait gate approve %s, or resume with --again", last.ID, last.Role, standing.ID)}, nil
	case again:
		return nil, nil // a person said no, and says otherwise now
	}
	return &store.Reason{Kind: store.ReasonAttempts, Message: fmt.Sprintf(
		"attempt %s of %s was cut off, and gate %s says that it may not be made once more; resume with --again to do so all the same", last.ID, last.Role, standing.ID)}, nil
}

// answered waits until one of the open gates of a thread, or of what is below it,
// has been answered. It reports false when ctx ends first, or at once when
// nobody's answer would let anything go on.
func (d *drive) answered(ctx context.Context, id string) (bool, error) {
	fail := func(err error) (bool, error) {
		if ctx.Err() != nil {
			return false, nil
		}
		return false, fmt.Errorf("wait for answers to thread %s: %w", id, err)
	}
	rows, err := d.under(ctx, id)
	if err != nil {
		return fail(err)
	}
	var open []store.Gate
	for _, row := range rows {
		if row.Status != store.Blocked || row.Reason == nil || row.Reason.Kind != store.ReasonGate && row.Reason.Kind != store.ReasonConflict {
			continue
		}
		gates, err := d.gates.Gates(ctx, store.GateFilter{Thread: row.ID, State: store.GateOpen})
		if err != nil {
			return fail(err)
		}
		if len(gates) == 0 && strings.HasPrefix(row.Reason.Message, unsettled) {
			continue // nobody is asked
		}
		if len(gates) == 0 {
			return true, nil // since it was blocked
		}
		open = append(open, gates...)
	}
	if len(open) == 0 {
		return false, nil
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	first := make(chan error, len(open))
	for _, g := range open {
		go func() {
			_, err := d.gates.Wait(waiting, g.ID)
			first <- err
		}()
	}
	if err := <-first; err != nil {
		return fail(err)
	}
	return true, nil
}

// withdraw ends what is still asked about a thread that has ended.
func (c *Controller) withdraw(ctx context.Context, row store.Thread) error {
	open, err := c.gates.Gates(ctx, store.GateFilter{Thread: row.ID, State: store.GateOpen})
	if err != nil {
		return fmt.Errorf("end thread %s: %w", row.ID, err)
	}
	for _, g := range open {
		if _, err := c.gates.Withdraw(ctx, g, "the thread has ended"); err != nil && !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("end thread %s: %w", row.ID, err)
		}
	}
	return nil
}

// person is who runs Plait, or "".
func person() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}
