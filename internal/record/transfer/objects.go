package transfer

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// Limits on a batch of objects, and the size up to which a blob is in one.
const (
	maxObjects     = 500
	maxObjectBytes = 4 << 20
	maxSmall       = 256 << 10
)

// gcSafe is how long after it was written an object is safe from gc, whose grace period is longer.
const gcSafe = 20 * time.Minute

// objects copies everything reachable from roots in From to To. For a task that is in To, only
// missing objects are copied; for any other, all are written again: no row refers to them yet, so
// gc may be about to delete them.
func (c *copier) objects(ctx context.Context, roots []dag.Hash, pin string, there bool) error {
	var w dag.Walker
	var batch []store.Object
	held := 0
	flush := func() error {
		if err := c.write(ctx, batch); err != nil {
			return fmt.Errorf("put %d objects: %w", len(batch), err)
		}
		batch, held = batch[:0], 0
		return nil
	}
	err := w.Walk(roots, func(h dag.Hash) ([]dag.Hash, error) {
		o, refs, large, err := c.read(ctx, h)
		if err != nil {
			return nil, fmt.Errorf("object %s: %w", h.Short(), err)
		}
		if had, err := c.has(ctx, h, there); err != nil || had {
			return refs, err
		}
		c.put[h] = time.Now()
		c.report.Objects++
		if large {
			n, err := c.stage(ctx, h, pin)
			c.report.Bytes += n
			return nil, err
		}
		c.report.Bytes += int64(len(o.Data))
		batch = append(batch, o)
		if held += len(o.Data); len(batch) >= maxObjects || held >= maxObjectBytes {
			return refs, flush()
		}
		return refs, nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// write writes objects, and an event that says what is kept of those that were redacted: the one that said so in From
// belongs to no task.
func (c *copier) write(ctx context.Context, objects []store.Object) error {
	b := store.Batch{Objects: objects}
	p := event.TaskRedacted{By: c.cfg.By, Reason: event.Text("copied from " + cmp.Or(c.cfg.Source, "another record"))}
	for i := range objects {
		if objects[i].Redacted {
			p.Objects++
		}
	}
	if p.Objects > 0 {
		b.Events = []store.Event{event.New(store.Thread{}, c.cfg.Now().UnixMilli(), p)}
	}
	return c.to.Commit(ctx, b)
}

// has reports whether h need not be copied.
func (c *copier) has(ctx context.Context, h dag.Hash, there bool) (bool, error) {
	if at, ok := c.put[h]; ok && time.Since(at) < gcSafe {
		return true, nil
	}
	if !there {
		return false, nil
	}
	return c.cfg.To.Has(ctx, h)
}

// read returns an object of From and its refs. It returns no data for a large blob, which is
// streamed.
func (c *copier) read(ctx context.Context, h dag.Hash) (o store.Object, refs []dag.Hash, large bool, err error) {
	r, entry, err := c.cfg.From.Open(ctx, h)
	if errors.Is(err, store.ErrNotFound) {
		return o, nil, false, fmt.Errorf("it is missing: %w", store.ErrCorrupt)
	}
	if err != nil {
		return o, nil, false, err
	}
	defer r.Close()
	in := bufio.NewReader(r)
	head, _ := in.Peek(16)
	if entry.Kind != store.Node && entry.Size > maxSmall && !store.MayBeRedacted(head) {
		return o, nil, true, nil
	}
	o = store.Object{Hash: h, Kind: entry.Kind}
	if o.Data, err = io.ReadAll(in); err != nil {
		return o, nil, false, err
	}
	data, was := store.Unredacted(o.Data)
	o.Redacted = was && dag.Sum(o.Data) != h
	if o.Kind != store.Node {
		return o, nil, false, nil
	}
	n, err := dag.Decode(data)
	if err != nil {
		return o, nil, false, fmt.Errorf("read node: %w: %w", store.ErrCorrupt, err)
	}
	return o, n.Refs, false, nil
}

// stage streams a large blob. It is pinned until the rows of its task are committed.
func (c *copier) stage(ctx context.Context, h dag.Hash, pin string) (int64, error) {
	r, _, err := c.cfg.From.Open(ctx, h)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	got, n, err := c.to.Stage(ctx, pin, r)
	if err == nil && got != h {
		err = fmt.Errorf("object %s came as %s: %w", h.Short(), got.Short(), store.ErrCorrupt)
	}
	return n, err
}
