// Package verify reports whether a record is as it was written, and whether all of it is there.
//
// Its input is a store and, for the views, the directory that holds them; its
// output is a report with two verdicts and every problem, by object hash.
//
//	objects   bytes against hash, canonical encoding, derived refs (object.go)
//	reach     from rows along refs: what is missing (reach.go)
//	rules     each step against its parent, start, fork, paths, child and flow;
//	          each row against its chain, its parent, the step that records it, and
//	          the last event that says what it is (proofs.go)
//	container what the store reports about itself, and views ahead of the store
//
// Laws:
//
//  1. One problem never hides another: verification continues with the rest.
//  2. A problem counts against integrity when something present is wrong: bytes,
//     refs, links, a row that contradicts its chain, a route the flow does not
//     take, a damaged container. It counts against completeness when something
//     is absent or unreadable: an object, rows, a lost commit.
//  3. Walks are iterative, blobs are streamed, each node is decoded once.
//  4. Rules follow from the format, from package flow and from what package record states,
//     never from the engine: a bug in the code that runs tasks must not also hide what it did.
//     Nodes are hashed, decoded and compared with their neighbors here; what a flow sees of the
//     steps before one is read by package record, from nodes that were found sound (sound.go).
//
// The package reads only. It repairs nothing, and trusts no cache.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
)

// Config says what to verify. Only Store is required.
type Config struct {
	Store    store.Store
	Home     string                // directory of the views; "": do not check them
	Seen     []Seen                // what others have seen of the log
	Progress func(done, total int) // objects checked, and objects known so far; may be nil
	// Counts returns why a signature of an answer, by a key at a time, does not count; nil: those of any key do, and only
	// name it.
	Counts func(ctx context.Context, key ssh.PublicKey, at time.Time) error
	// Accepts returns why a person's word for a history that is not as it was seen does not count; nil: nobody's does.
	Accepts history.Counts
}

// Verdicts.
const (
	OK     = "ok"
	Failed = "failed"
)

// A Report is the outcome of a verification.
type Report struct {
	Integrity    string    `json:"integrity"`         // OK or Failed
	Completeness string    `json:"completeness"`      // OK or Failed
	History      string    `json:"history,omitempty"` // OK or Failed; empty: the log was not checked
	Objects      int       `json:"objects"`           // checked
	Problems     []Problem `json:"problems"`          // by hash, then text; never nil
	// Redacted counts the objects and answers that were redacted: what they said cannot be checked.
	Redacted int `json:"redacted"`
	// Unproven counts those of these objects of which no event says what is kept instead, since a version of before that
	// was said redacted them, or so it seems: they may be anything.
	Unproven int `json:"unproven,omitempty"`
	// Signed counts the answers whose signature is valid, by the fingerprint of the key.
	Signed map[string]int `json:"signed,omitempty"`
	// Unchecked counts the steps of older versions that do not name their path:
	// their routes are not checked, everything else is.
	Unchecked int `json:"unchecked"`
	// Log is the log that was checked; nil if none was.
	Log *Log `json:"log,omitempty"`
	// Accepted is why the log does not continue what was seen of it, by those who said so in it.
	Accepted []Accepted `json:"accepted,omitempty"`
	// Diverged is what was seen of the log and is not so, for no reason that counts: there is a problem for each.
	Diverged []Seen `json:"-"`
}

// OK reports whether no problem was found.
func (r Report) OK() bool { return len(r.Problems) == 0 }

// A Kind is the verdict that a problem counts against.
type Kind int

// The kinds of problems.
const (
	Integrity Kind = iota
	Completeness
	History
	redacted // against neither: it was redacted, and so cannot be checked
)

// A Problem is one thing that is wrong. Hash is zero when the problem is not
// about a single object.
type Problem struct {
	Hash dag.Hash `json:"hash"`
	What string   `json:"what"`
	Kind Kind     `json:"-"`
}

// All verifies every object and row, the container, and the views. Writers may
// be active at the same time.
func All(ctx context.Context, cfg Config) (Report, error) {
	for try := 1; ; try++ {
		c := newCheck(cfg)
		removed, err := c.checkAll(ctx)
		if err != nil {
			return Report{}, fmt.Errorf("verify store: %w", err)
		}
		// What is left of a thread removed during the check looks like damage.
		if r := c.report(); r.OK() || !removed || try == 3 {
			return r, nil
		}
	}
}

// Entries verifies the log alone.
func Entries(ctx context.Context, cfg Config) (Report, error) {
	c := newCheck(cfg)
	if err := c.checkLog(ctx); err != nil {
		return Report{}, fmt.Errorf("verify log: %w", err)
	}
	return c.report(), nil
}

// Thread verifies a thread's row and everything reachable from it; for the root
// of a task, all threads of the task. The error matches store.ErrNotFound when
// there is no such thread.
func Thread(ctx context.Context, cfg Config, id string) (Report, error) {
	c := newCheck(cfg)
	if err := c.checkThread(ctx, id); err != nil {
		return Report{}, fmt.Errorf("verify thread %s: %w", id, err)
	}
	return c.report(), nil
}

// Object verifies an object and everything reachable from it. The error matches
// store.ErrNotFound when the object is absent.
func Object(ctx context.Context, cfg Config, h dag.Hash) (Report, error) {
	c := newCheck(cfg)
	kept, err := cfg.Store.Has(ctx, h)
	if err == nil && !kept {
		err = store.ErrNotFound
	}
	if err == nil {
		err = c.checkReachable(ctx, []dag.Hash{h}, []root{{h, "object %s that was asked for", h.String()}})
	}
	if err != nil {
		return Report{}, fmt.Errorf("verify object %s: %w", h, err)
	}
	return c.report(), nil
}

// A check is a verification in progress.
type check struct {
	cfg       Config
	objects   map[dag.Hash]*object
	defs      definitions
	plans     map[dag.Hash]*stepPlan
	positions map[branchPosition]*branchPosition
	textLeft  int // bytes of texts that may still be cached
	examined  int
	problems  []Problem
	unchecked int
	redacted  int
	unproven  int
	said      redactions
	signed    map[string]int
	log       *Log // set once the log was read
	accepted  []Accepted
	diverged  []Seen
}

func newCheck(cfg Config) *check {
	return &check{
		cfg: cfg, objects: make(map[dag.Hash]*object), defs: definitions{}, plans: map[dag.Hash]*stepPlan{},
		positions: make(map[branchPosition]*branchPosition), textLeft: maxTexts,
	}
}

// wrong adds a problem against integrity.
func (c *check) wrong(h dag.Hash, format string, args ...any) {
	c.problems = append(c.problems, Problem{h, fmt.Sprintf(format, args...), Integrity})
}

// absent adds a problem against completeness.
func (c *check) absent(h dag.Hash, format string, args ...any) {
	c.problems = append(c.problems, Problem{h, fmt.Sprintf(format, args...), Completeness})
}

// unreadable records that what could not be read, possibly because of damage.
// It returns err if verification itself cannot continue.
func (c *check) unreadable(ctx context.Context, what string, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, store.ErrBroken) {
		return err
	}
	c.absent(dag.Hash{}, "%s cannot be read: %v", what, err)
	return nil
}

func (c *check) report() Report {
	r := Report{
		Integrity: OK, Completeness: OK, Objects: c.examined, Unchecked: c.unchecked, Redacted: c.redacted,
		Unproven: c.unproven, Signed: c.signed, Accepted: c.accepted, Diverged: c.diverged,
		Problems: slices.Clone(c.problems),
	}
	slices.SortFunc(r.Problems, func(a, b Problem) int {
		return cmp.Or(slices.Compare(a.Hash[:], b.Hash[:]), cmp.Compare(a.What, b.What))
	})
	r.Problems = slices.Compact(r.Problems)
	if c.log != nil {
		r.Log, r.History = c.log, OK
	}
	for _, p := range r.Problems {
		switch p.Kind {
		case Integrity:
			r.Integrity = Failed
		case History:
			r.History = Failed
		default:
			r.Completeness = Failed
		}
	}
	if r.Problems == nil {
		r.Problems = []Problem{}
	}
	return r
}

// checkAll verifies the whole store. removed reports whether threads were removed
// while it ran.
//
// It reads first what lags: views are drawn from rows, and an attempt is done in
// the batch that moves the head. So a concurrent writer never makes anything look
// ahead of what is read after it.
func (c *check) checkAll(ctx context.Context) (removed bool, err error) {
	views, err := c.readViews()
	if err != nil {
		return false, err
	}
	if err := c.checkLog(ctx); err != nil {
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
	if err := c.scan(ctx, len(listed)); err != nil {
		return false, err
	}
	if err := c.checkReachable(ctx, listed, rows.roots()); err != nil {
		return false, err
	}
	c.addContainer(lines)
	if err := c.checkRows(ctx, rows); err != nil {
		return false, err
	}
	if err := c.checkViews(ctx, views, rows); err != nil {
		return false, err
	}
	now, err := c.cfg.Store.Threads(ctx, store.ThreadFilter{})
	if err != nil {
		return false, nil // already reported, if it persists
	}
	for _, t := range now {
		delete(rows.live, t.ID)
	}
	return len(rows.live) > 0, nil
}

// addContainer adds what the store reports about itself, except for objects that
// already have a problem.
func (c *check) addContainer(lines []string) {
	for _, line := range lines {
		var h dag.Hash
		if name, ok := strings.CutPrefix(line, "object "); ok && len(name) >= 2*dag.Size {
			h, _ = dag.ParseHash(name[:2*dag.Size]) // otherwise the line is about the container
		}
		named := func(p Problem) bool { return !h.IsZero() && p.Hash == h }
		if !slices.ContainsFunc(c.problems, named) {
			c.wrong(h, "%s", line)
		}
	}
}

// checkThread verifies one thread, or the whole task of a root.
func (c *check) checkThread(ctx context.Context, id string) error {
	row, err := c.cfg.Store.Thread(ctx, id)
	if err != nil {
		return err
	}
	attempts, gates := store.AttemptFilter{Thread: id}, store.GateFilter{Thread: id}
	if row.Root == row.ID {
		attempts, gates = store.AttemptFilter{Task: row.Task}, store.GateFilter{Task: row.Task}
	}
	r := rows{complete: row.Root == row.ID, answers: true, all: row.Root == row.ID}
	if r.proofs, err = c.beginProofs(ctx); err != nil {
		return err
	}
	if r.attempts, err = c.cfg.Store.Attempts(ctx, attempts); err != nil {
		return err
	}
	if row.Root == row.ID {
		r.threads, err = c.cfg.Store.Threads(ctx, store.ThreadFilter{Task: row.Task})
	} else {
		row, err = c.cfg.Store.Thread(ctx, id)
		r.threads = []store.Thread{row}
	}
	if err == nil {
		r.gates, err = c.cfg.Store.Gates(ctx, gates) // see readRows
	}
	if err == nil && r.complete {
		r.requests, err = c.cfg.Store.Requests(ctx, store.RequestFilter{Task: row.Task})
	}
	if err == nil {
		err = r.proofs.read(ctx, c.cfg.Store, row.Task)
	}
	if err != nil {
		return err
	}
	if err := c.checkReachable(ctx, nil, r.roots()); err != nil {
		return err
	}
	return c.checkRows(ctx, r)
}

// checkReachable checks the listed objects and everything reachable from roots,
// then applies the rules to what is reachable.
func (c *check) checkReachable(ctx context.Context, listed []dag.Hash, roots []root) error {
	for _, r := range roots {
		listed = append(listed, r.hash)
	}
	if err := c.checkObjects(ctx, listed); err != nil {
		return err
	}
	if err := c.readRedactions(ctx); err != nil {
		return err
	}
	reached := c.markReached(roots)
	c.countSteps(reached)
	return c.checkRules(ctx, reached)
}
