package verify

import (
	"context"
	"errors"
	"iter"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// errUnsound reports that a node is damaged or missing, which is reported for that node.
var errUnsound = errors.New("a node is not sound")

// sound returns the object under h, and whether it was read and decoded. Rules skip an object that was not:
// its problem has already been reported.
func (c *check) sound(h dag.Hash) (*object, bool) {
	o := c.objects[h]
	return o, o != nil && o.problem == nil
}

// fatal returns err if verification itself cannot continue, nil if something is damaged, which was reported.
func (c *check) fatal(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, store.ErrBroken) {
		return err
	}
	return nil
}

// soundNodes are the sound nodes, for package record to read steps from. It reads what was checked and decoded here,
// so a step is read as in a run, and nothing is read that a rule has not seen. It implements [record.Nodes].
type soundNodes struct{ *check }

// Walk yields the steps from head back to the first one, newest first. After a step whose chain is broken it yields
// errUnsound.
func (n soundNodes) Walk(_ context.Context, head dag.Hash) iter.Seq2[thread.Step, error] {
	return func(yield func(thread.Step, error) bool) {
		for h := head; ; {
			o, ok := n.sound(h)
			switch {
			case !ok:
				yield(thread.Step{}, errUnsound)
				return
			case o.state == nil || !yield(thread.Step{Hash: h, State: o.state}, nil):
				return
			}
			h = o.state.Previous()
		}
	}
}

// lastRouted returns the last routed step at or before h, its State is nil for none. The error is errUnsound if the
// chain is broken.
func (c *check) lastRouted(h dag.Hash) (thread.Step, error) {
	return thread.LastRouted(soundNodes{c}.Walk(context.Background(), h), dag.Hash{})
}

// State returns a state.
func (n soundNodes) State(_ context.Context, h dag.Hash) (*thread.State, error) {
	if o, ok := n.sound(h); ok && o.state != nil {
		return o.state, nil
	}
	return nil, errUnsound
}

// Detail returns the detail of a step, nil if it has none or a damaged one.
func (n soundNodes) Detail(_ context.Context, h dag.Hash) (*thread.Detail, error) {
	o, ok := n.sound(h)
	if !ok {
		return nil, nil
	}
	return o.detail, nil
}

// Text returns the text of a content, from the store if it is not cached.
func (n soundNodes) Text(ctx context.Context, h dag.Hash) (string, error) {
	o, ok := n.sound(h)
	if !ok || o.typ != dag.TypeContent {
		return "", errUnsound
	}
	if o.text != nil {
		return *o.text, nil
	}
	data, _, err := n.readObject(ctx, h)
	if err != nil {
		return "", err // it may have been collected meanwhile
	}
	node, err := dag.Decode(data)
	if err != nil {
		return "", err
	}
	return dag.Unquote(node.Payload)
}
