package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// An object is what the rules need to know of one, once its bytes are done with.
type object struct {
	hash    dag.Hash
	size    int64  // bytes
	typ     string // of a node that was decoded; "" for anything else
	problem *Problem
	refs    []dag.Hash

	state   *thread.State
	start   *thread.Start
	flow    *thread.Bundle
	defs    map[string]*flow.Definition // of a flow, as far as asked for
	text    *string                     // of a content, while there is room for it
	attempt string                      // of a detail
	prompt  dag.Hash                    // of a detail
	parts   *thread.PromptNode          // of a prompt
	proofs  []dag.Hash                  // of a detail: its evidence
	by      string                      // the instance of a detail or an evidence
	blob    dag.Hash                    // of an artifact
	claimed int64                       // bytes that an artifact says its blob has

	reached bool
	located bool   // of a state: place is set
	steps   int32  // of a state: its place in the chain, from 1; -1: not known
	place   *place // of a state; nil: not known
}

const (
	// maxTexts bounds the texts held for the routes; others are read again.
	maxTexts = 64 << 20
	maxText  = 64 << 10
	// batchSize is how many objects are examined between two looks at the clock
	// and the progress.
	batchSize = 4096
)

// examine looks at the objects listed and at all they refer to.
func (c *check) examine(ctx context.Context, todo []dag.Hash) error {
	queued := make(map[dag.Hash]struct{}, len(todo))
	var queue []dag.Hash
	push := func(hs []dag.Hash) {
		for _, h := range hs {
			if _, ok := queued[h]; !ok && !h.IsZero() {
				queued[h] = struct{}{}
				queue = append(queue, h)
			}
		}
	}
	push(todo)
	for len(queue) > 0 {
		n := min(len(queue), batchSize)
		batch := queue[:n:n]
		queue = queue[n:]
		found, err := c.lookAt(ctx, batch)
		if err != nil {
			return err
		}
		for _, o := range found {
			c.objects[o.hash] = o
			if o.text != nil {
				if c.textLeft -= len(*o.text); c.textLeft < 0 {
					o.text = nil
				}
			}
			push(o.refs)
		}
		if c.cfg.Progress != nil {
			c.cfg.Progress(len(c.objects), len(queued))
		}
	}
	return nil
}

// lookAt examines hs, several at a time: decoding strictly costs more than reading.
func (c *check) lookAt(ctx context.Context, hs []dag.Hash) ([]*object, error) {
	found := make([]*object, len(hs))
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range min(runtime.GOMAXPROCS(0), len(hs)) {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(hs) {
					return nil
				}
				o := &object{hash: hs[i]}
				err := c.look(ctx, o)
				if err := o.blame(ctx, err); err != nil {
					return err
				}
				found[i] = o
			}
		})
	}
	return found, g.Wait()
}

// blame turns what went wrong while reading o into its problem.
func (o *object) blame(ctx context.Context, err error) error {
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, store.ErrBroken):
		return err
	case errors.Is(err, store.ErrNotFound):
		o.problem = &Problem{o.hash, "missing", Completeness}
	case errors.Is(err, fs.ErrNotExist):
		o.problem = &Problem{o.hash, err.Error(), Completeness} // its row is there, its file is not
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, dag.ErrMalformed):
		o.problem = &Problem{o.hash, err.Error(), Integrity}
	default:
		o.problem = &Problem{o.hash, "cannot be read: " + err.Error(), Completeness}
	}
	return nil
}

// look reads all of o's bytes, which checks their hash, and decodes a node.
func (c *check) look(ctx context.Context, o *object) error {
	data, e, err := c.read(ctx, o.hash)
	if err != nil {
		return err
	}
	o.size = e.Size
	switch {
	case e.Kind == store.Blob:
		return nil
	case e.Kind != store.Node || data == nil:
		return fmt.Errorf("it is of kind %d and has %d bytes: %w", e.Kind, e.Size, dag.ErrMalformed)
	}
	n, err := dag.Decode(data)
	if err != nil {
		return err
	}
	o.refs = n.Refs
	if err := o.decode(n); err != nil {
		return fmt.Errorf("payload of %s: %w: %w", n.Type, dag.ErrMalformed, err)
	}
	o.typ = n.Type
	return nil
}

// read reads all of an object's bytes and returns them if it is a node. A size
// is not believed before the bytes have been counted.
func (c *check) read(ctx context.Context, h dag.Hash) ([]byte, store.Entry, error) {
	r, e, err := c.cfg.Store.Open(ctx, h)
	if err != nil {
		return nil, e, err
	}
	defer r.Close()
	var data []byte
	var n int64
	if e.Kind == store.Node && e.Size <= dag.MaxBytes {
		b := bytes.NewBuffer(make([]byte, 0, max(0, e.Size)+bytes.MinRead))
		n, err = b.ReadFrom(r)
		data = b.Bytes()
	} else {
		n, err = io.Copy(io.Discard, r)
	}
	if err == nil && n != e.Size {
		err = fmt.Errorf("has %d bytes, its row says %d: %w", n, e.Size, store.ErrCorrupt)
	}
	return data, e, err
}

// decode keeps what the rules look at.
func (o *object) decode(n dag.Node) error {
	var v any
	switch n.Type {
	case dag.TypeState:
		o.state = new(thread.State)
		v = o.state
	case dag.TypeStart:
		o.start = new(thread.Start)
		v = o.start
	case dag.TypeFlow:
		o.flow = new(thread.Bundle)
		v = o.flow
	case dag.TypeContent:
		text := new(string)
		if err := json.Unmarshal(n.Payload, text); err != nil {
			return err
		}
		if len(*text) <= maxText {
			o.text = text
		}
		return nil
	case dag.TypeDetail:
		var d thread.Detail
		if err := json.Unmarshal(n.Payload, &d); err != nil {
			return err
		}
		o.attempt, o.prompt = d.Attempt, d.Prompt
		o.proofs, o.by = d.Evidence, d.Instance
		return nil
	case dag.TypePrompt:
		o.parts = new(thread.PromptNode)
		v = o.parts
	case dag.TypeArtifact:
		var a thread.Artifact
		if err := json.Unmarshal(n.Payload, &a); err != nil {
			return err
		}
		o.blob, o.claimed = a.Blob, a.Size
		return nil
	case dag.TypeEvidence:
		var e thread.Evidence
		if err := json.Unmarshal(n.Payload, &e); err != nil {
			return err
		}
		o.by = e.By
		return nil
	}
	return json.Unmarshal(n.Payload, v)
}

// A root is an object that a row names, or that was asked for.
type root struct {
	hash dag.Hash
	what string
}

// reach notes what is wrong with the objects themselves, and returns those that
// roots reach, along with what is missing among them. Garbage may have lost what
// it refers to.
func (c *check) reach(roots []root) []*object {
	var reached []*object
	type visit struct {
		hash dag.Hash
		by   *object // nil: a root
		what string
	}
	var stack []visit
	for _, r := range roots {
		stack = append(stack, visit{r.hash, nil, r.what})
	}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		o := c.objects[v.hash]
		if o == nil || o.reached {
			continue // the zero hash, or seen
		}
		o.reached = true
		reached = append(reached, o)
		if o.missing() {
			if v.by != nil {
				v.what = fmt.Sprintf("named by %s %s", v.by.typ, v.by.hash)
			} else {
				v.what = "the " + v.what
			}
			c.absent(o.hash, "missing, %s", v.what)
		}
		for _, h := range o.refs {
			stack = append(stack, visit{h, o, ""})
		}
	}
	for _, o := range c.objects {
		if !o.missing() {
			c.examined++
		}
		if o.problem != nil && !o.missing() {
			c.problems = append(c.problems, *o.problem)
		}
	}
	return reached
}

func (o *object) missing() bool { return o.problem != nil && o.problem.What == "missing" }

// sound returns the object under h if it could be read and decoded. What is not
// sound was reported where it lies, so rules pass over it.
func (c *check) sound(h dag.Hash) (*object, bool) {
	o := c.objects[h]
	return o, o != nil && o.problem == nil
}
