// Package verify tells whether a record is what was written, and whether all of
// it is there.
//
// In go a store and, for the views, the directory they lie in; out comes a
// report with two verdicts and every problem by the hash of its object.
//
//	examine   every object: bytes against hash, spelling, derived refs
//	reach     from rows along refs: what is missing
//	rules     each step against its parent, start, fork, paths, child and flow;
//	          each row against its chain, its parent, and the step that records it
//	container what the store says of itself, and views that are ahead of it
//
// Laws:
//
//  1. One problem never hides another: verification goes on with the rest.
//  2. A problem counts against integrity when something there is wrong: bytes,
//     refs, links, a row that contradicts its chain, a route the flow does not
//     take, damage of the container. It counts against completeness when
//     something is not there or cannot be read: an object, rows, a lost commit.
//  3. Walks are iterative, blobs are streamed, each node is decoded once.
//
// The package reads only. It repairs nothing, and believes no cache.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
)

// Config says what to verify. Only Store is needed.
type Config struct {
	Store    store.Store
	Home     string                // directory of the views; "": they are not looked at
	Progress func(done, total int) // objects examined, of those known; nil: nobody asks
}

// Verdicts.
const (
	OK     = "ok"
	Failed = "failed"
)

// A Report is the outcome of a verification.
type Report struct {
	Integrity    string    `json:"integrity"`    // OK or Failed
	Completeness string    `json:"completeness"` // OK or Failed
	Objects      int       `json:"objects"`      // examined
	Problems     []Problem `json:"problems"`     // by hash, then text; never nil
	// Unchecked counts the steps of older versions that do not say in which path they were
	// done: how the flow led to them is not checked, all else is.
	Unchecked int `json:"unchecked"`
}

// OK tells whether nothing is wrong.
func (r Report) OK() bool { return len(r.Problems) == 0 }

// A Kind says which verdict a problem counts against.
type Kind int

// The kinds of problems.
const (
	Integrity Kind = iota
	Completeness
)

// A Problem is one thing that is wrong. Hash is zero when it is not about one
// object.
type Problem struct {
	Hash dag.Hash `json:"hash"`
	What string   `json:"what"`
	Kind Kind     `json:"-"`
}

// All verifies every object and row, the container, and the views. Writers may
// be at work meanwhile.
func All(ctx context.Context, cfg Config) (Report, error) {
	for try := 1; ; try++ {
		c := newCheck(cfg)
		removed, err := c.all(ctx)
		if err != nil {
			return Report{}, fmt.Errorf("verify store: %w", err)
		}
		// What a thread removed meanwhile left behind looks like damage.
		if r := c.report(); r.OK() || !removed || try == 3 {
			return r, nil
		}
	}
}

// Thread verifies a thread's row and everything it reaches; for the root of a
// task, all threads of the task. store.ErrNotFound when there is no such thread.
func Thread(ctx context.Context, cfg Config, id string) (Report, error) {
	c := newCheck(cfg)
	if err := c.thread(ctx, id); err != nil {
		return Report{}, fmt.Errorf("verify thread %s: %w", id, err)
	}
	return c.report(), nil
}

// Object verifies an object and everything it reaches. store.ErrNotFound when it
// is not there.
func Object(ctx context.Context, cfg Config, h dag.Hash) (Report, error) {
	c := newCheck(cfg)
	kept, err := cfg.Store.Has(ctx, h)
	if err == nil && !kept {
		err = store.ErrNotFound
	}
	if err == nil {
		err = c.judge(ctx, []dag.Hash{h}, []root{{h, "what was asked for"}})
	}
	if err != nil {
		return Report{}, fmt.Errorf("verify object %s: %w", h, err)
	}
	return c.report(), nil
}

// A check is one verification under way.
type check struct {
	cfg       Config
	objects   map[dag.Hash]*object
	defs      definitions
	plans     map[dag.Hash]*planned
	places    map[place]*place
	textLeft  int // bytes of texts that may still be held
	examined  int
	problems  []Problem
	unchecked int
}

func newCheck(cfg Config) *check {
	return &check{cfg: cfg, objects: make(map[dag.Hash]*object), defs: definitions{}, plans: map[dag.Hash]*planned{}, places: make(map[place]*place), textLeft: maxTexts}
}

func (c *check) wrong(h dag.Hash, format string, args ...any) {
	c.problems = append(c.problems, Problem{h, fmt.Sprintf(format, args...), Integrity})
}

func (c *check) absent(h dag.Hash, format string, args ...any) {
	c.problems = append(c.problems, Problem{h, fmt.Sprintf(format, args...), Completeness})
}

// unreadable notes that rows could not be read, which damage explains. What
// keeps verification itself from going on is returned.
func (c *check) unreadable(ctx context.Context, what string, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, store.ErrBroken) {
		return err
	}
	c.absent(dag.Hash{}, "%s cannot be read: %v", what, err)
	return nil
}

func (c *check) report() Report {
	r := Report{Integrity: OK, Completeness: OK, Objects: c.examined, Unchecked: c.unchecked, Problems: slices.Clone(c.problems)}
	slices.SortFunc(r.Problems, func(a, b Problem) int {
		return cmp.Or(slices.Compare(a.Hash[:], b.Hash[:]), cmp.Compare(a.What, b.What))
	})
	r.Problems = slices.Compact(r.Problems)
	for _, p := range r.Problems {
		if p.Kind == Integrity {
			r.Integrity = Failed
		} else {
			r.Completeness = Failed
		}
	}
	if r.Problems == nil {
		r.Problems = []Problem{}
	}
	return r
}

// all verifies the whole store. removed says that threads went away meanwhile.
//
// Things are read in the order in which they lag: views are drawn from rows, an
// attempt is done in the batch that moves the head. So a writer makes nothing
// look ahead of what is read after it.
func (c *check) all(ctx context.Context) (removed bool, err error) {
	views, err := c.readViews()
	if err != nil {
		return false, err
	}
	lines, err := c.cfg.Store.Check(ctx)
	if err := c.unreadable(ctx, "the container", err); err != nil {
		return false, err
	}
	rows, err := c.readRows(ctx)
	if err != nil {
		return false, err
	}
	var listed []dag.Hash
	for e, err := range c.cfg.Store.List(ctx) {
		if err := c.unreadable(ctx, "the list of objects", err); err != nil {
			return false, err
		}
		if err == nil {
			listed = append(listed, e.Hash)
		}
	}
	if err := c.judge(ctx, listed, rows.roots()); err != nil {
		return false, err
	}
	c.container(lines)
	if err := c.rows(ctx, rows); err != nil {
		return false, err
	}
	if err := c.views(ctx, views, rows); err != nil {
		return false, err
	}
	now, err := c.cfg.Store.Threads(ctx, store.ThreadFilter{})
	if err != nil {
		return false, nil // reported above, if it lasts
	}
	for _, t := range now {
		delete(rows.live, t.ID)
	}
	return len(rows.live) > 0, nil
}

// container takes over what the store says of itself, unless the object that a
// line is about has been named already.
func (c *check) container(lines []string) {
	for _, line := range lines {
		var h dag.Hash
		if name, ok := strings.CutPrefix(line, "object "); ok && len(name) >= 2*dag.Size {
			h, _ = dag.ParseHash(name[:2*dag.Size]) // not a hash: about the container
		}
		named := func(p Problem) bool { return !h.IsZero() && p.Hash == h }
		if !slices.ContainsFunc(c.problems, named) {
			c.wrong(h, "%s", line)
		}
	}
}

func (c *check) thread(ctx context.Context, id string) error {
	row, err := c.cfg.Store.Thread(ctx, id)
	if err != nil {
		return err
	}
	var r rows
	if row.Root == row.ID {
		r.attempts, err = c.cfg.Store.Attempts(ctx, store.AttemptFilter{Task: row.Task})
		if err == nil {
			r.gates, err = c.cfg.Store.Gates(ctx, store.GateFilter{Task: row.Task})
		}
		if err == nil {
			r.whole = true
			r.threads, err = c.cfg.Store.Threads(ctx, store.ThreadFilter{Task: row.Task})
		}
	} else {
		r.attempts, err = c.cfg.Store.Attempts(ctx, store.AttemptFilter{Thread: id})
		if err == nil {
			r.gates, err = c.cfg.Store.Gates(ctx, store.GateFilter{Thread: id})
		}
		if err == nil {
			row, err = c.cfg.Store.Thread(ctx, id)
		}
		r.threads = []store.Thread{row}
	}
	if err != nil {
		return err
	}
	if err := c.judge(ctx, nil, r.roots()); err != nil {
		return err
	}
	return c.rows(ctx, r)
}

// judge examines the listed objects and what roots reach, then applies the rules
// to what is reached.
func (c *check) judge(ctx context.Context, listed []dag.Hash, roots []root) error {
	for _, r := range roots {
		listed = append(listed, r.hash)
	}
	if err := c.examine(ctx, listed); err != nil {
		return err
	}
	reached := c.reach(roots)
	c.measure(reached)
	return c.rules(ctx, reached)
}
