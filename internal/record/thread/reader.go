package thread

import (
	"context"
	"fmt"
	"sync"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A Reader reads nodes and caches them. They never change, so the cache is never stale. Methods
// may be called concurrently.
type Reader struct {
	objects store.Objects

	mu    sync.Mutex
	nodes map[dag.Hash]any // *Start, *State, *Content, *Bundle
	old   map[dag.Hash]any // the previous generation; what is read again moves to nodes
	bytes int              // held by nodes
}

// cacheBytes limits each generation of a Reader's cache, roughly.
const cacheBytes = 32 << 20

// NewReader returns a Reader over objects.
func NewReader(objects store.Objects) *Reader {
	return &Reader{objects: objects, nodes: make(map[dag.Hash]any)}
}

// Objects returns what r reads from.
func (r *Reader) Objects() store.Objects { return r.objects }

// Node returns the decoded node kept under h. For a blob it returns store.ErrNotFound: bytes that
// an agent wrote are never taken for a node.
func (r *Reader) Node(ctx context.Context, h dag.Hash) (dag.Node, error) {
	obj, err := r.objects.Get(ctx, h)
	if err != nil {
		return dag.Node{}, fmt.Errorf("read node %s: %w", h.Short(), err)
	}
	return NodeOf(obj)
}

// NodeOf returns the decoded node of an object, as [Reader.Node] does.
func NodeOf(obj store.Object) (dag.Node, error) {
	h := obj.Hash
	if obj.Kind != store.Node {
		return dag.Node{}, fmt.Errorf("read node %s: it is a blob: %w", h.Short(), store.ErrNotFound)
	}
	n, err := dag.Decode(obj.Data)
	if err != nil {
		return dag.Node{}, fmt.Errorf("read node %s: %w: %w", h.Short(), store.ErrCorrupt, err)
	}
	return n, nil
}

// load returns the start, state, content or bundle kept under h.
func (r *Reader) load(ctx context.Context, h dag.Hash) (any, error) {
	if v, ok := r.held(h); ok {
		return v, nil
	}
	n, err := r.Node(ctx, h)
	if err != nil {
		return nil, err
	}
	return r.decode(h, n)
}

// fetch reads, in one round trip, those of hs that are not cached, for a caller about to read each
// of them: starts, states, contents and bundles. It leaves errors to those reads.
func (r *Reader) fetch(ctx context.Context, hs []dag.Hash) {
	var missing []dag.Hash
	r.mu.Lock()
	for _, h := range hs {
		if r.nodes[h] == nil && r.old[h] == nil {
			missing = append(missing, h)
		}
	}
	r.mu.Unlock()
	if len(missing) < 2 {
		return
	}
	all, err := r.objects.Many(ctx, missing)
	if err != nil {
		return
	}
	for _, obj := range all {
		if n, err := NodeOf(obj); err == nil {
			r.decode(obj.Hash, n)
		}
	}
}

// decode decodes a start, state, content or bundle, and caches it.
func (r *Reader) decode(h dag.Hash, n dag.Node) (any, error) {
	var v any
	var err error
	switch n.Type {
	case dag.TypeStart:
		v = new(Start)
		err = n.Unmarshal(v)
	case dag.TypeState:
		v = new(State)
		err = n.Unmarshal(v)
	case dag.TypeFlow:
		v = new(Bundle)
		err = n.Unmarshal(v)
	case dag.TypeContent:
		c := &Content{Artifacts: n.Refs}
		c.Text, err = dag.Unquote(n.Payload)
		v = c
	default:
		return nil, fmt.Errorf("read node %s: it is of type %s: %w", h.Short(), n.Type, store.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", n.Type, h.Short(), err)
	}
	r.keep(h, v, len(n.Payload))
	return v, nil
}

// cached reports whether h is cached.
func (r *Reader) cached(h dag.Hash) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes[h] != nil || r.old[h] != nil
}

func (r *Reader) held(h dag.Hash) (any, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.nodes[h]
	if !ok {
		if v, ok = r.old[h]; ok {
			size := 1024
			switch v := v.(type) {
			case *Content:
				size = len(v.Text)
			case *Bundle:
				for _, flow := range v.Flows {
					size += len(flow)
				}
			}
			r.add(h, v, size)
		}
	}
	return v, ok
}

func (r *Reader) keep(h dag.Hash, v any, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(h, v, size)
}

func (r *Reader) add(h dag.Hash, v any, size int) {
	if r.bytes += size + 256; r.bytes > cacheBytes {
		r.old, r.nodes, r.bytes = r.nodes, make(map[dag.Hash]any), size+256
	}
	r.nodes[h] = v
}

// Remember caches a step that the caller has just made.
func (r *Reader) Remember(c Change) {
	if c.Step.State == nil {
		return
	}
	r.keep(c.Step.Hash, c.Step.State, len(c.Step.State.Meta)+67*len(c.Step.State.Ancestors))
	r.keep(c.Step.State.Content, &c.Content, len(c.Content.Text))
}

func load[T any](ctx context.Context, r *Reader, h dag.Hash, what string) (*T, error) {
	v, err := r.load(ctx, h)
	if err != nil {
		return nil, err
	}
	t, ok := v.(*T)
	if !ok {
		return nil, fmt.Errorf("read %s %s: the object is of another type: %w", what, h.Short(), store.ErrNotFound)
	}
	return t, nil
}

// Start returns the start kept under h.
func (r *Reader) Start(ctx context.Context, h dag.Hash) (*Start, error) {
	return load[Start](ctx, r, h, "start")
}

// State returns the state kept under h.
func (r *Reader) State(ctx context.Context, h dag.Hash) (*State, error) {
	return load[State](ctx, r, h, "state")
}

// Content returns the content kept under h.
func (r *Reader) Content(ctx context.Context, h dag.Hash) (*Content, error) {
	return load[Content](ctx, r, h, "content")
}

// Text returns the text of the content kept under h.
func (r *Reader) Text(ctx context.Context, h dag.Hash) (string, error) {
	c, err := r.Content(ctx, h)
	if err != nil {
		return "", err
	}
	return c.Text, nil
}

// Detail returns the detail kept under h, or nil for the zero hash.
func (r *Reader) Detail(ctx context.Context, h dag.Hash) (*Detail, error) {
	if h.IsZero() {
		return nil, nil
	}
	return decodeAs[Detail](ctx, r, h, dag.TypeDetail)
}

// Artifact returns the artifact kept under h.
func (r *Reader) Artifact(ctx context.Context, h dag.Hash) (*Artifact, error) {
	return decodeAs[Artifact](ctx, r, h, dag.TypeArtifact)
}

// Bundle returns the bundle kept under h.
func (r *Reader) Bundle(ctx context.Context, h dag.Hash) (*Bundle, error) {
	return load[Bundle](ctx, r, h, "flow")
}

func decodeAs[T any](ctx context.Context, r *Reader, h dag.Hash, typ string) (*T, error) {
	n, err := r.Node(ctx, h)
	if err != nil {
		return nil, err
	}
	if n.Type != typ {
		return nil, fmt.Errorf("read %s %s: it is a %s node: %w", typ, h.Short(), n.Type, store.ErrNotFound)
	}
	v := new(T)
	if err := n.Unmarshal(v); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", typ, h.Short(), err)
	}
	return v, nil
}
