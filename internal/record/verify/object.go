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
	reached bool     // from a row, along refs
	payload
	chain chainInfo // of a state
}

// A payload is the decoded part of a node. At most one of its pointers is set, by the node's type.
type payload struct {
	state    *thread.State
	start    *thread.Start
	bundle   *bundle
	text     *string // of a content, if cached
	detail   *detail
	prompt   *prompt.Node
	calls    *calls
	files    *thread.Files
	carried  *thread.Session
	artifact *artifact
	evidence *evidence
	instance string // that made the detail or evidence
}

// A bundle is a set of flows, with those decoded so far.
type bundle struct {
	thread.Bundle
	defs map[string]*flow.Definition
}

type detail struct {
	attempt  string
	by       string // the person who made the step
	to       int64  // Unix ms
	answers  thread.Answers
	prompt   dag.Hash
	evidence []dag.Hash
	failures []thread.PathFailure
	said     []dag.Hash // transcripts: its own, and those of earlier attempts
	files    dag.Hash
	carried  dag.Hash
	session  string
	after    string // git tree, "" if unknown
}

// An evidence is the part of an entry that is checked besides its links.
type evidence struct {
	heard     []thread.EvidenceSource // lines of transcripts
	artifacts []dag.Hash
}

// A calls node is checked against the ones before it.
type calls struct{ prev dag.Hash }

type artifact struct {
	blob dag.Hash
	size int64 // size of its blob, as recorded in the artifact
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
				err := c.checkObject(ctx, o)
				if err := o.setProblem(ctx, err); err != nil {
					return err
				}
				found[i] = o
			}
		})
	}
	return found, g.Wait()
}

// setProblem records err, which occurred while reading o, as its problem. It returns
// errors that say nothing about o.
func (o *object) setProblem(ctx context.Context, err error) error {
	switch {
	case err == nil:
	case errors.Is(err, errRedacted):
		o.problem = &Problem{o.hash, "redacted", redacted}
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
	if err != nil && !errors.Is(err, errRedacted) {
		return err
	}
	return cmp.Or(o.examine(e.Kind, e.Size, data), err)
}

// errRedacted says that bytes are not an object's own, but what is kept of it.
var errRedacted = errors.New("redacted")

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
	replaced := false
	if e.Kind == store.Node && e.Size <= dag.MaxBytes {
		b := bytes.NewBuffer(make([]byte, 0, max(0, e.Size)+bytes.MinRead))
		n, err = b.ReadFrom(r)
		data = b.Bytes()
		if kept, is := store.Unredacted(data); is && dag.Sum(data) != h {
			data, replaced = kept, true
		}
	} else {
		n, replaced, err = store.Discard(r, h)
	}
	switch {
	case err != nil:
	case n != e.Size:
		err = fmt.Errorf("has %d bytes, its row says %d: %w", n, e.Size, store.ErrCorrupt)
	case replaced:
		e.Size, err = int64(len(data)), errRedacted
	}
	return data, e, err
}

// decode keeps the part of a payload that the rules use.
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
		o.bundle = new(bundle)
		v = &o.bundle.Bundle
	case dag.TypeContent:
		text, err := dag.Unquote(n.Payload)
		if err != nil {
			return err
		}
		if len(text) <= maxText {
			o.text = &text
		}
		return nil
	case dag.TypeDetail:
		var d thread.Detail
		if err := n.Unmarshal(&d); err != nil {
			return err
		}
		o.detail = &detail{attempt: d.Attempt, to: d.EndedAt, answers: d.Approvals, prompt: d.Prompt,
			evidence: d.Evidence, failures: d.Failures, said: []dag.Hash{d.Transcript}, files: d.Files,
			carried: d.SessionFiles, session: d.Session}
		if d.TreeAfter != nil {
			o.detail.after = *d.TreeAfter
		}
		if d.By != nil {
			o.detail.by = *d.By
		}
		for _, a := range d.Attempts {
			o.detail.said = append(o.detail.said, a.Transcript)
		}
		o.instance = d.Instance
		return nil
	case dag.TypePrompt:
		o.prompt = new(prompt.Node)
		v = o.prompt
	case dag.TypeCalls:
		var c thread.Calls
		if err := n.Unmarshal(&c); err != nil {
			return err
		}
		o.calls = &calls{c.Prev}
		return nil
	case dag.TypeTree:
		o.files = new(thread.Files)
		v = o.files
	case dag.TypeSession:
		o.carried = new(thread.Session)
		v = o.carried
	case dag.TypeArtifact:
		var a thread.Artifact
		if err := n.Unmarshal(&a); err != nil {
			return err
		}
		o.artifact = &artifact{a.Blob, a.Size}
		return nil
	case dag.TypeEvidence:
		var e thread.Evidence
		if err := n.Unmarshal(&e); err != nil {
			return err
		}
		o.instance, o.evidence = e.By, &evidence{artifacts: e.ArtifactRefs}
		for _, s := range e.Sources {
			if !s.EventsRef.IsZero() {
				o.evidence.heard = append(o.evidence.heard, s)
			}
		}
		return nil
	}
	return n.Unmarshal(v)
}
