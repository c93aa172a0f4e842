package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/plait-run/plait/internal/agent/replay"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/view/advice"
)

// A Replay is a task that repeats another one with the recorded answers of models, programs and people. It is a
// manual fork from the start, in a worktree of the files that the other task began with.
type Replay struct {
	Row  store.Thread
	Of   store.Thread
	Note string // what differs from the first run, or ""

	c      *Controller
	player *replay.Player
}

// A Replayed is the outcome of a replay.
type Replayed struct {
	Row    store.Thread
	Digest dag.Hash // of the outcome, see thread.Reader.Digest
	Then   dag.Hash // digest of the recorded outcome
	Step   int      // number of the first step that differs; 0: none
	Why    string   // what differs, or why the replay ended early
	Drifts []replay.Drift
}

// Same reports whether the outcome is the recorded one.
func (r Replayed) Same() bool { return r.Digest == r.Then }

// String says how the outcome compares with the recorded one.
func (r Replayed) String() string {
	if r.Same() {
		return "replayed: same outcome digest"
	}
	return fmt.Sprintf("replayed: step %d differs: %s", r.Step, r.Why)
}

// Replay makes a task that replays another one. With programs, programs run again. It checks that the task can
// be replayed before it makes anything.
func (c *Controller) Replay(ctx context.Context, id string, programs bool) (*Replay, error) {
	row, err := c.cfg.Store.Thread(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("replay task %s: %w", id, err)
	}
	bwrap := proc.Bubblewrap()
	switch {
	case row.Root != row.ID:
		return nil, usage("thread %s is part of task %s; replay the task", id, row.Root)
	case row.Path != nil:
		return nil, usage("task %s was forked inside a path: replay the task that it was forked from", id)
	case bwrap == "":
		return nil, usage("replay task %s: bubblewrap is not installed, and without it what the agents do again would "+
			"change your files; install bubblewrap (bwrap)", id)
	}
	r := &Replay{Of: row}
	r.player, err = replay.NewPlayer(ctx, replay.PlayerConfig{Store: c.cfg.Store, Nodes: c.reader, Trees: c.trees,
		Task: row, Home: c.cfg.Home, Scratch: c.cfg.Scratch, Bwrap: bwrap, Programs: programs})
	if err == nil {
		err = c.replayable(r.player)
	}
	if err == nil {
		err = c.beginReplay(ctx, r)
	}
	if err != nil {
		return nil, fmt.Errorf("replay task %s: %w", id, err)
	}
	own := *c // a copy, since it drives with a player
	own.player, r.c = r.player, &own
	own.cfg.Signing = nil // its answers are those of the recording, and let nothing happen
	own.gates = gate.New(gate.Config{Store: own.cfg.Store, Now: own.cfg.Now})
	return r, nil
}

// replayable returns why a task cannot be replayed, or nil.
func (c *Controller) replayable(p *replay.Player) error {
	asked := 0
	defined := c.agents().Defined
	for _, t := range p.Takes() {
		kind := t.Detail.Agent
		if def, ok := defined[kind]; ok {
			kind = def.Kind
		}
		switch {
		case kind == "replay" || kind == "command":
		case strings.Contains(t.Detail.Sandbox, "via: direct"):
			return usage("role %s reached its model directly (via: direct), so that its requests are not recorded; give "+
				"it a key and run the task again with --record", t.Role)
		case t.Detail.Calls.IsZero():
			return suggest("what role %s asked its model is not recorded; record it when the task is run: %s", t.Role,
				advice.Option{Verb: advice.Record})
		}
		asked++
	}
	if asked == 0 {
		return usage("no agent has done a step of it, or only in paths that are not joined")
	}
	return nil
}

// beginReplay makes the task of a replay, and its worktree.
func (c *Controller) beginReplay(ctx context.Context, r *Replay) (err error) {
	tree := ""
	for _, t := range r.player.Takes() {
		if before := t.Detail.TreeBefore; before != nil {
			tree = *before
			break
		}
	}
	if leased, err := worktree.UnderGit(ctx, r.Of.Workspace); err != nil {
		return usage("%w", err)
	} else if !leased {
		return usage("%s is not in a git repository, so the files that it began with are not known", worktree.Of(r.Of))
	}
	if tree == "" {
		r.Note = "how the files were is not recorded, as no role could write: the replay has them as they are now"
		if tree, err = c.trees.Hold(ctx, r.Of, "replay"); err != nil {
			return err
		}
	}
	r.Row, err = c.Fork(ctx, Fork{Thread: r.Of.ID, At: "0", Tree: tree, Options: Options{Replay: r.Of.ID}})
	return err
}

// Drive drives the replay until it ends or does something that is not recorded.
func (r *Replay) Drive(ctx context.Context) (Replayed, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	answers, err := r.answers(ctx)
	if err != nil {
		return Replayed{}, err
	}
	answered := make(chan struct{})
	watching, end := context.WithCancel(ctx)
	go func() {
		defer close(answered)
		if err := answers.answerAll(watching, r.Row.ID); watching.Err() == nil {
			stop(err)
		}
	}()
	row, err := r.c.Drive(ctx, r.Row.ID, Resume{Wait: true})
	end()
	<-answered
	bg := context.WithoutCancel(ctx)
	var off *offScript
	if !errors.As(context.Cause(ctx), &off) && err != nil {
		if why := context.Cause(ctx); why != nil && !errors.Is(why, context.Canceled) {
			err = why
		}
		if now, readErr := r.c.cfg.Store.Thread(bg, r.Row.ID); readErr == nil && !now.Ended() { // it cannot be resumed
			row, readErr = r.c.Cancel(bg, r.Row.ID)
			err = errors.Join(err, readErr)
		}
		return Replayed{Row: row}, err
	}
	if row, err = r.c.cfg.Store.Thread(bg, r.Row.ID); err != nil {
		return Replayed{}, err
	}
	done, err := r.compare(bg, row)
	if err == nil && off != nil && !done.Same() {
		done.Why = off.Error()
	}
	if err == nil && !row.Ended() { // it cannot be resumed
		why := &store.Reason{Kind: store.ReasonCancelled, Message: done.String()}
		if done.Same() {
			why.Message += "; " + displayName(r.Of) + " has not ended"
			if of := r.Of.Reason; of != nil {
				why.Message += ": " + thread.Plainly(of.Message)
			}
		}
		done.Row, err = r.c.cancel(bg, row.ID, why)
	}
	return done, err
}

// WhatIf forks a task before a step, so that another model is asked from there on. It returns how to drive the
// fork.
func (c *Controller) WhatIf(ctx context.Context, id, from, model string) (Retried, error) {
	row, err := c.cfg.Store.Thread(ctx, id)
	if err != nil {
		return Retried{}, fmt.Errorf("replay task %s: %w", id, err)
	}
	at, err := c.forkPoint(ctx, row, from)
	if err != nil {
		return Retried{}, err
	}
	plan, err := c.forkBefore(ctx, at)
	if err != nil {
		return Retried{}, err
	}
	f := Fork{Thread: plan.thread, At: plan.at, Rejoin: plan.rejoin, Options: Options{Model: model}}
	if d, err := c.reader.Detail(ctx, at.step.State.Detail); err == nil && d != nil && d.TreeBefore != nil && !f.Rejoin {
		f.Tree = *d.TreeBefore
	}
	next, err := c.Fork(ctx, f)
	if err != nil {
		return Retried{}, err
	}
	return Retried{Row: next, Note: fmt.Sprintf("%s is a fork of %s: %s with %s", displayName(next), displayName(row),
		plan.note, model)}, nil
}

// compare compares the outcome with the recorded one.
func (r *Replay) compare(ctx context.Context, row store.Thread) (Replayed, error) {
	out := Replayed{Row: row, Drifts: r.player.Drifts()}
	nodes := r.c.reader
	var err error
	digest := func(head dag.Hash) dag.Hash {
		d, digestErr := nodes.Digest(ctx, head)
		err = errors.Join(err, digestErr)
		return d
	}
	out.Then, out.Digest = digest(r.Of.Head), digest(row.Head)
	if err != nil || out.Same() {
		return out, err
	}
	then, err := steps(ctx, nodes, r.Of.Head)
	if err != nil {
		return out, err
	}
	now, err := steps(ctx, nodes, row.Head)
	if err != nil {
		return out, err
	}
	i := sort.Search(min(len(then), len(now)), func(i int) bool { return digest(then[i].Hash) != digest(now[i].Hash) })
	out.Step = i + 1
	switch {
	case err != nil:
	case i == len(now):
		out.Why = fmt.Sprintf("step %s is missing", then[i].State.Role)
		if row.Reason != nil {
			out.Why += ": " + row.Reason.Message
		}
	case i == len(then):
		out.Why = fmt.Sprintf("step %s is new", now[i].State.Role)
	default:
		out.Why = difference(then[i].State, now[i].State)
	}
	return out, err
}

// difference returns what differs between two steps.
func difference(then, now *thread.State) string {
	switch {
	case then.Role != now.Role:
		return fmt.Sprintf("it ran as %s, and now as %s", then.Role, now.Role)
	case string(then.Meta) != string(now.Meta):
		return fmt.Sprintf("%s returned %s, and now %s", then.Role, then.Meta, now.Meta)
	case then.Content != now.Content:
		return then.Role + " answered with another text"
	}
	return "what " + then.Role + " joined or called differs"
}

// steps returns the steps up to a head that make up its outcome.
func steps(ctx context.Context, nodes *thread.Reader, head dag.Hash) ([]thread.Step, error) {
	all, err := nodes.Steps(ctx, head)
	return slices.DeleteFunc(all, func(s thread.Step) bool { return s.State.Role == thread.RoleCompact }), err
}
