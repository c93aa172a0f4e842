package verify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// An object is what the rules need to know about one stored object; its bytes are dropped.
type object struct {
	hash    dag.Hash
	size    int64  // bytes
	typ     string // of a decoded node; "" for a blob, or when decoding failed
	refs    []dag.Hash
	problem *Problem // why the object is unusable; nil: it is usable
	missing bool     // the problem is that it is missing
	kept    dag.Hash // SHA-256 of what is kept instead of its bytes; zero: they are its own
	reached bool     // from a row, along refs
	payload
	chain chainInfo // of a state
}

// A payload is the decoded part of a node. At most one of its pointers is set, by the node's type.
type payload struct {
	state    *thread.State
	start    *thread.Start
	bundle   *bundle
	text     *string        // of a content, if cached
	detail   *thread.Detail // without what it used of the conversation
	prompt   *prompt.Node
	calls    *thread.Calls // without the calls
	files    *thread.Files
	carried  *thread.Session
	artifact *thread.Artifact
	evidence *thread.Evidence // without its texts
}

// A bundle is a set of flows, with those decoded so far.
type bundle struct {
	thread.Bundle
	defs map[string]*flow.Definition
}

// chainInfo is derived from the steps before a state.
type chainInfo struct {
	steps    int32           // the state's number in its chain, from 1; -1: unknown
	located  bool            // position was computed
	position *branchPosition // nil: unknown
}

const (
	// maxTexts and maxText bound the texts cached for routing; others are read again.
	maxTexts = 256 << 20
	maxText  = 64 << 10
	// batchSize is the number of objects checked between two reports of progress.
	batchSize = 4096
)

// checkObjects checks the objects in todo and, breadth first, everything they refer to.
func (c *check) checkObjects(ctx context.Context, todo []dag.Hash) error {
	queued := make(map[dag.Hash]struct{}, len(todo))
	var queue []dag.Hash
	push := func(hs []dag.Hash) {
		for _, h := range hs {
			if _, ok := queued[h]; !ok && c.objects[h] == nil && !h.IsZero() {
				queued[h] = struct{}{}
				queue = append(queue, h)
			}
		}
	}
	push(todo)
	for _, o := range c.objects {
		push(o.refs)
	}
	for len(queue) > 0 {
		n := min(len(queue), batchSize)
		batch := queue[:n:n]
		queue = queue[n:]
		found, err := c.checkBatch(ctx, batch)
		if err != nil {
			return err
		}
		for _, o := range found {
			c.add(o)
			push(o.refs)
		}
		c.progress(len(c.objects) + len(queue))
	}
	c.progress(len(c.objects))
	return nil
}

// add keeps the result for an object.
func (c *check) add(o *object) {
	c.objects[o.hash] = o
	if o.text != nil {
		if c.textLeft -= len(*o.text); c.textLeft < 0 {
			o.text = nil
		}
	}
}

func (c *check) progress(total int) {
	if c.cfg.Progress != nil {
		c.cfg.Progress(len(c.objects), max(total, len(c.objects)))
	}
}

// scan checks what the store can read in one pass. Objects that the pass omits, or all of them if it fails, are
// read one by one later, which also reports what is wrong.
func (c *check) scan(ctx context.Context, total int) error {
	var mu sync.Mutex
	err := c.cfg.Store.Scan(ctx, func(obj store.Object) error {
		o := &object{hash: obj.Hash}
		err := o.examine(obj.Kind, int64(len(obj.Data)), obj.Data)
		if err := o.setProblem(ctx, err); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if c.add(o); len(c.objects)%batchSize == 0 {
			c.progress(total)
		}
		return nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, store.ErrBroken) {
		return err
	}
	return nil
}

// checkBatch checks hs in parallel: strict decoding costs more than reading.
func (c *check) checkBatch(ctx context.Context, hs []dag.Hash) ([]*object, error) {
	found := make([]*object, len(hs))
	return found, inParallel(ctx, len(hs), func(ctx context.Context, i int) error {
		found[i] = &object{hash: hs[i]}
		return found[i].setProblem(ctx, c.checkObject(ctx, found[i]))
	})
}

// inParallel calls do with the numbers below n, until one call fails.
func inParallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range min(runtime.GOMAXPROCS(0), n) {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return g.Wait()
}

// setProblem records err, which occurred while reading o, as its problem. It returns
// errors that say nothing about o.
func (o *object) setProblem(ctx context.Context, err error) error {
	var instead instead
	switch {
	case err == nil:
	case errors.As(err, &instead):
		o.kept, o.problem = dag.Hash(instead), &Problem{o.hash, instead.Error(), redacted}
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, store.ErrBroken):
		return err
	case errors.Is(err, store.ErrNotFound):
		o.missing, o.problem = true, &Problem{o.hash, "missing", Completeness}
	case errors.Is(err, fs.ErrNotExist):
		o.problem = &Problem{o.hash, err.Error(), Completeness} // its row exists, but its file does not
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, dag.ErrMalformed):
		o.problem = &Problem{o.hash, err.Error(), Integrity}
	default:
		o.problem = &Problem{o.hash, "cannot be read: " + err.Error(), Completeness}
	}
	return nil
}

// checkObject reads all bytes of o, which checks their hash, and decodes a node.
func (c *check) checkObject(ctx context.Context, o *object) error {
	data, e, err := c.readObject(ctx, o.hash)
	if err != nil && !errors.As(err, new(instead)) {
		return err
	}
	return cmp.Or(o.examine(e.Kind, e.Size, data), err)
}

// An instead says that bytes are not an object's own, but kept instead: their SHA-256.
type instead dag.Hash

func (instead) Error() string { return "redacted" }

// examine decodes an object whose bytes match its hash.
func (o *object) examine(kind store.Kind, size int64, data []byte) error {
	o.size = size
	switch {
	case kind == store.Blob:
		return nil
	case kind != store.Node || data == nil:
		return fmt.Errorf("it is of kind %d and has %d bytes: %w", kind, size, dag.ErrMalformed)
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

// readObject reads all bytes of an object and returns those of a node. The size in its
// row is not trusted: it may be damaged, and is compared with the bytes read.
func (c *check) readObject(ctx context.Context, h dag.Hash) ([]byte, store.Entry, error) {
	r, e, err := c.cfg.Store.Open(ctx, h)
	if err != nil {
		return nil, e, err
	}
	defer r.Close()
	var data []byte
	var n int64
	var kept dag.Hash
	if e.Kind == store.Node && e.Size <= dag.MaxBytes {
		b := bytes.NewBuffer(make([]byte, 0, max(0, e.Size)+bytes.MinRead))
		n, err = b.ReadFrom(r)
		data = b.Bytes()
		if rest, is := store.Unredacted(data); is && dag.Sum(data) != h {
			data, kept = rest, dag.Sum(data)
		}
	} else {
		n, kept, err = store.Discard(r, h)
	}
	switch {
	case err != nil:
	case n != e.Size:
		err = fmt.Errorf("has %d bytes, its row says %d: %w", n, e.Size, store.ErrCorrupt)
	case !kept.IsZero():
		e.Size, err = int64(len(data)), instead(kept)
	}
	return data, e, err
}

// decode keeps the part of a payload that the rules use.
func (o *object) decode(n dag.Node) (err error) {
	switch n.Type {
	case dag.TypeState:
		o.state, err = decodeAs[thread.State](n)
	case dag.TypeContent:
		var text string
		if text, err = dag.Unquote(n.Payload); len(text) <= maxText {
			o.text = &text
		}
	case dag.TypeStart:
		o.start, err = decodeAs[thread.Start](n)
	case dag.TypeFlow:
		o.bundle, err = decodeAs[bundle](n)
	case dag.TypePrompt:
		o.prompt, err = decodeAs[prompt.Node](n)
	case dag.TypeTree:
		o.files, err = decodeAs[thread.Files](n)
	case dag.TypeSession:
		o.carried, err = decodeAs[thread.Session](n)
	case dag.TypeArtifact:
		o.artifact, err = decodeAs[thread.Artifact](n)
	case dag.TypeDetail:
		o.detail, err = decodeAs[thread.Detail](n)
		o.detail.Context = nil
	case dag.TypeCalls:
		o.calls, err = decodeAs[thread.Calls](n)
		o.calls.Calls = nil
	case dag.TypeEvidence:
		o.evidence, err = decodeAs[thread.Evidence](n)
		o.evidence.Title, o.evidence.Summary = "", ""
	}
	return err
}

func decodeAs[T any](n dag.Node) (*T, error) {
	v := new(T)
	return v, n.Unmarshal(v)
}
