package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/record/store"
)

const (
	// signAfter is how long after something was filed the log is signed.
	signAfter = 10 * time.Second
	// signFor is how long signing may take.
	signFor = 10 * time.Second
)

// A Notary is a store whose log is signed by itself: when a task has ended, ten seconds after something else was filed,
// and when the store is closed. Who files waits for none of this but the last, and while nothing is filed, nothing is
// done. Other processes may have their own.
type Notary struct {
	store.Store
	cfg NotaryConfig

	mu     sync.Mutex
	due    *time.Timer    // when the log is signed next; nil: nothing was filed since
	failed error          // why the log could not be signed when it was last tried
	ended  []string       // the workspaces of tasks that have ended since
	unseen error          // why a witness has not seen the log when it was last shown
	signed sync.WaitGroup // what is due
}

// NotaryConfig configures a notary.
type NotaryConfig struct {
	Kept   Kept // the checkpoint that is extended
	Sign   func(head Checkpoint) ([]byte, error)
	Failed func(error) // called when the log cannot be signed, but could before
	// Show, if set, shows the log to witnesses at the end of a task of a workspace.
	Show func(ctx context.Context, log store.Journal, workspace string) error
}

// NewNotary returns a notary of what is filed in s through it. Close closes s.
func NewNotary(s store.Store, cfg NotaryConfig) *Notary { return &Notary{Store: s, cfg: cfg} }

// Commit commits b to the store, and has the log signed later.
func (n *Notary) Commit(ctx context.Context, b store.Batch) error {
	err := n.Store.Commit(ctx, b)
	if err != nil || len(b.Events) == 0 {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	ended := false
	for _, t := range b.Threads {
		if t.Row.ID == t.Row.Root && t.Row.Ended() {
			ended, n.ended = true, append(n.ended, t.Row.Workspace)
		}
	}
	switch {
	case ended && n.due != nil && n.due.Stop():
		n.due = time.AfterFunc(0, n.sign)
	case n.due == nil:
		after := signAfter
		if ended {
			after = 0
		}
		n.signed.Add(1)
		n.due = time.AfterFunc(after, n.sign)
	}
	return nil
}

func (n *Notary) sign() {
	defer n.signed.Done()
	n.mu.Lock()
	n.due = nil
	ended := slices.Compact(slices.Sorted(slices.Values(n.ended)))
	n.ended = nil
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), signFor)
	defer cancel()
	_, err := n.cfg.Kept.Extend(ctx, n.Store, n.cfg.Sign)
	n.mu.Lock()
	if n.failed == nil && err != nil {
		n.cfg.Failed(err)
	}
	n.failed = err
	n.mu.Unlock()
	if n.cfg.Show == nil || len(ended) == 0 {
		return
	}
	var unseen error
	for _, workspace := range ended {
		unseen = errors.Join(unseen, n.cfg.Show(ctx, n.Store, workspace))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unseen = unseen
}

// Close has the log signed if something was filed since, and closes the store. It returns why the log is not signed,
// or not seen by every witness.
func (n *Notary) Close() error {
	n.mu.Lock()
	due := n.due
	n.mu.Unlock()
	if due != nil && due.Stop() {
		n.sign()
	}
	n.signed.Wait()
	err := n.Store.Close()
	if n.failed != nil {
		err = errors.Join(fmt.Errorf("the log is not signed: %w", n.failed), err)
	}
	if n.unseen != nil {
		err = errors.Join(fmt.Errorf("not every witness has seen the log: %w", n.unseen), err)
	}
	return err
}
