// Package transfer copies tasks from one record into another, and from an export into a record.
// It reports what was copied, what existed already, and what was refused. Laws:
//
//   - The caller verifies the source first: this package checks hashes only.
//   - Objects are written before the rows that refer to them, and a task's rows in one
//     batch: a task exists completely or not at all.
//   - Nothing is overwritten. A task that has continued since it was copied counts as
//     present; one that differs is refused.
//   - Every operation can be repeated, and continues where it was interrupted.
//
// Nothing is deleted, except the event that a task was removed from To when it comes again. Nothing is
// driven, and no file of a workspace is read or written.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/verify"
)

// Config says what to copy, and where.
type Config struct {
	From, To store.Store
	// Workspace is the directory that the tasks belong to in To; "": the same as in From.
	Workspace string
	// Source names what is imported, for the record and for people: an imported task is not
	// driven until a person resumes it. "": it continues as it would in From.
	Source string
	By     string // who imports
	// Reserved reports whether people mean something else by the name of a flow, which is then not copied. Nil: none.
	Reserved func(flow string) bool
	Now      func() time.Time
	Progress func(done, total int) // in tasks; may be nil
}

// Results for a task or a flow.
const (
	Imported = "imported"
	There    = "there"   // To has all that From has of it
	Differs  = "differs" // To has something else under its name, and keeps it
	Driven   = "driven"  // it is being driven in From or in To
)

// A Report is the result for each task and each name in the registry.
type Report struct {
	Tasks   []Item `json:"tasks"`   // by id
	Flows   []Item `json:"flows"`   // by name
	Objects int    `json:"objects"` // objects written to To
	Bytes   int64  `json:"bytes"`   // their size
}

// An Item is one task, or one name in the registry.
type Item struct {
	ID     string   `json:"id"`              // of a task; of a flow, its name
	Short  string   `json:"short,omitempty"` // name in To
	State  string   `json:"state"`
	Why    string   `json:"why,omitempty"`
	Head   dag.Hash `json:"head,omitzero"`
	Digest dag.Hash `json:"digest,omitzero"` // the outcome digest, the same in both
}

// Refused returns the items that were not copied and are not present.
func (r Report) Refused() []Item {
	var out []Item
	for _, list := range [][]Item{r.Tasks, r.Flows} {
		for _, it := range list {
			if it.State == Differs || it.State == Driven {
				out = append(out, it)
			}
		}
	}
	return out
}

// Tasks copies all tasks of From, by id, and its registry. A refused task does not keep others
// from being copied. Each copied task is verified in To, with everything it reaches; an error
// that matches store.ErrCorrupt says that To is missing something.
func Tasks(ctx context.Context, cfg Config) (Report, error) {
	c := copier{cfg: cfg, report: Report{Tasks: []Item{}, Flows: []Item{}}, put: map[dag.Hash]time.Time{}, to: cfg.To}
	rows, err := cfg.From.Threads(ctx, store.ThreadFilter{Kind: store.KindRoot})
	if err != nil {
		return c.report, fmt.Errorf("read tasks: %w", err)
	}
	for i, row := range rows {
		item, err := c.task(ctx, row)
		if err != nil {
			return c.report, fmt.Errorf("copy task %s: %w", row.ID, err)
		}
		c.report.Tasks = append(c.report.Tasks, item)
		if cfg.Progress != nil {
			cfg.Progress(i+1, len(rows))
		}
	}
	if err := c.registry(ctx); err != nil {
		return c.report, fmt.Errorf("copy registry: %w", err)
	}
	return c.report, nil
}

// A copier is one transfer.
type copier struct {
	cfg    Config
	report Report
	put    map[dag.Hash]time.Time // objects written to To, and when
	to     store.Store            // To, with the lease of the task
}

// task copies one task under its lease in both records, so that it does not change meanwhile.
func (c *copier) task(ctx context.Context, root store.Thread) (Item, error) {
	item := Item{ID: root.ID, Head: root.Head}
	var held *store.HeldError
	for _, s := range []store.Store{c.cfg.From, c.cfg.To} {
		lease, err := s.Acquire(ctx, root.ID)
		if errors.As(err, &held) {
			item.State, item.Why = Driven, held.Error()
			return item, nil
		}
		if err != nil {
			return item, err
		}
		defer lease.Release()
		c.to = store.Under(c.cfg.To, lease) // the lease of To is the last
	}
	rows, err := readTask(ctx, c.cfg.From, root.ID)
	if err != nil {
		return item, err
	}
	item.Head = rows.root().Head
	// Workers of a team drive its threads under their own leases.
	var leases []string
	for _, t := range rows.threads {
		leases = append(leases, store.ThreadLease(t.ID))
	}
	owners, err := c.cfg.From.Holders(ctx, leases)
	if err != nil {
		return item, err
	}
	for name, owner := range owners {
		item.State, item.Why = Driven, (&store.HeldError{Name: name, Owner: owner}).Error()
		return item, nil
	}
	seen, why, err := c.compare(ctx, rows)
	if err != nil || why != "" {
		item.State, item.Why = Differs, why
		return item, err
	}
	if seen.removed > 0 {
		// Its events begin again at 1.
		err := c.to.Commit(ctx, store.Batch{Remove: []string{root.ID}, Events: []store.Event{c.begun(rows, seen.removed)}})
		if err != nil {
			return item, err
		}
	}
	// Even a task that is present may lack objects: an import was interrupted, or a backup is
	// older.
	before := c.report.Objects
	if err := c.objects(ctx, rows.roots(), root.ID, seen.there); err != nil {
		return item, err
	}
	item.State = There
	if !seen.there {
		if err := c.commit(ctx, rows, seen); err != nil {
			return item, err
		}
		item.State = Imported
	}
	return item, c.confirm(ctx, &item, c.report.Objects > before)
}

// confirm verifies that To has the task as From has it. changed says that something was written.
func (c *copier) confirm(ctx context.Context, item *Item, changed bool) error {
	kept, err := c.cfg.To.Thread(ctx, item.ID)
	if err != nil {
		return err
	}
	item.Short = kept.Short
	if item.Digest, err = thread.NewReader(c.cfg.To).Digest(ctx, item.Head); err != nil {
		return err
	}
	want, err := thread.NewReader(c.cfg.From).Digest(ctx, item.Head)
	if err != nil {
		return err
	}
	if want != item.Digest {
		return fmt.Errorf("its outcome digest is %s, and was %s: %w", item.Digest, want, store.ErrCorrupt)
	}
	if !changed {
		return nil
	}
	report, err := verify.Thread(ctx, verify.Config{Store: c.cfg.To}, item.ID)
	if err != nil {
		return err
	}
	if !report.OK() {
		return fmt.Errorf("%d problems after copying, the first: %s: %w", len(report.Problems),
			report.Problems[0].What, store.ErrCorrupt)
	}
	return nil
}

// registry copies the names of flows.
func (c *copier) registry(ctx context.Context) error {
	c.to = c.cfg.To
	flows, err := c.cfg.From.Flows(ctx)
	if err != nil {
		return err
	}
	for _, f := range flows {
		item := Item{ID: f.Name, Head: f.Hash}
		roots := []dag.Hash{f.Hash}
		for _, old := range f.History {
			roots = append(roots, old.Hash)
		}
		kept, err := c.cfg.To.Flow(ctx, f.Name)
		switch {
		case err == nil && kept.Hash == f.Hash:
			item.State = There
		case err == nil:
			item.State, item.Why = Differs, "the name means bundle "+kept.Hash.Short()+" here"
		case !errors.Is(err, store.ErrNotFound):
			return err
		case c.cfg.Reserved != nil && c.cfg.Reserved(f.Name):
			item.State, item.Why = Differs, "the name means a built-in flow here"
		default:
			if err := c.objects(ctx, roots, "registry", false); err != nil {
				return err
			}
			err := c.cfg.To.Commit(ctx, store.Batch{Flows: []store.FlowChange{{Row: f}},
				Events: []store.Event{event.New(store.Thread{}, c.cfg.Now().UnixMilli(),
					event.FlowRegistered{Name: f.Name, Hash: f.Hash, By: c.cfg.By, From: c.cfg.Source})}})
			if err != nil {
				return fmt.Errorf("flow %s: %w", f.Name, err)
			}
			item.State = Imported
		}
		c.report.Flows = append(c.report.Flows, item)
	}
	return nil
}
