package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// A witness is where checkpoints of the log are kept besides this machine.
type witness struct {
	by string
	at interface {
		Read(ctx context.Context) (signed, tree []byte, err error)
		Extend(ctx context.Context, log store.Journal, sign func(history.Checkpoint) ([]byte, error),
		) (history.Checkpoint, error)
	}
}

// witnesses returns the witnesses of the user's configuration. What is wrong with one is returned too, and keeps nobody
// from the others. A workspace without Git has no repository that could be one.
func (a *app) witnesses(ctx context.Context, workspace string) (list []witness, err error) {
	set, err := config.Load(config.UserFile(), "", a.getenv)
	if err != nil {
		return nil, err
	}
	for _, w := range set.Witness.V {
		if w.File != "" {
			list = append(list, witness{w.Noun(), history.Kept{File: w.File, Accepts: a.accepting}})
			continue
		}
		repo, openErr := git.Open(ctx, workspace)
		if errors.Is(openErr, git.ErrNone) {
			continue
		}
		if openErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", w.Noun(), openErr))
			continue
		}
		chain := git.Chain{Repo: repo, Ref: "refs/plait/checkpoints", Remote: w.Remote}
		list = append(list, witness{w.Noun(), commits{chain, a.accepting}})
	}
	return list, err
}

// commits keep checkpoints in a Git repository, one in each.
type commits struct {
	chain   git.Chain
	accepts history.Counts
}

// The files of a commit.
const (
	commitCheckpoint = "checkpoint"
	commitTree       = "checkpoint.tree"
)

func (c commits) String() string { return c.chain.String() }

// Extend adds a commit with a checkpoint of the log as it is now.
func (c commits) Extend(ctx context.Context, log store.Journal, sign func(history.Checkpoint) ([]byte, error),
) (history.Checkpoint, error) {
	return history.Extend(ctx, c, c.accepts, log, sign)
}

// Read returns what the newest commit has.
func (c commits) Read(ctx context.Context) (signed, tree []byte, err error) {
	files, err := c.chain.Files(ctx, commitCheckpoint, commitTree)
	if err != nil {
		return nil, nil, err
	}
	return files[0], files[1], nil
}

// Write adds a commit.
func (c commits) Write(ctx context.Context, signed, tree []byte) error {
	return c.chain.Add(ctx, map[string][]byte{commitCheckpoint: signed, commitTree: tree},
		"Checkpoint of the log of Plait\n", time.Now())
}

// show shows the head of the log to the witnesses. The error says which of them do not have it, and why.
func (a *app) show(ctx context.Context, log store.Journal, workspace string) error {
	list, err := a.witnesses(ctx, workspace)
	for _, w := range list {
		if _, extendErr := w.at.Extend(ctx, log, signHead); extendErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", w.by, extendErr))
		}
	}
	return err
}

// showAtEnd is show at the end of a task. A worker says at once what fails: it may be long before it ends.
func (a *app) showAtEnd(ctx context.Context, log store.Journal, workspace string) error {
	err := a.show(ctx, log, workspace)
	if err != nil && a.worker != "" {
		fmt.Fprintf(a.err, "worker %s: not every witness has seen the log: %s\n", a.worker, text.OneLine(err.Error(), 400))
	}
	return err
}

// A testimony is a checkpoint, and who keeps it.
type testimony struct {
	Witness string `json:"witness"`
	view.Checkpoint
}

// witnessed returns the newest checkpoints of the witnesses. Those out of reach are said.
func (a *app) witnessed(ctx context.Context, w *workplace) (all []testimony, err error) {
	list, err := a.witnesses(ctx, w.workspace)
	if err != nil {
		fmt.Fprintln(a.err, "warning: "+text.Safe(err.Error()))
	}
	for _, x := range list {
		signed, _, err := x.at.Read(ctx)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			fmt.Fprintf(a.err, "warning: %s does not say what it has seen: %s\n", x.by, text.Safe(err.Error()))
			continue
		}
		c, err := w.view().ReadCheckpoint(ctx, signed)
		if err != nil {
			return nil, view.Advise(fmt.Errorf("read what %s has seen: %w: %w", x.by, err, store.ErrCorrupt),
				"a copy needs witnesses of its own: name others in your settings")
		}
		all = append(all, testimony{x.by, c})
	}
	return all, nil
}

// seenOf returns what this machine and witnesses have seen of the log.
func seenOf(known view.History, witnesses []testimony) (all []verify.Seen) {
	if known.Signed != nil {
		all = append(all, seen("this machine", *known.Signed))
	}
	for _, w := range witnesses {
		all = append(all, seen(w.Witness, w.Checkpoint))
	}
	return all
}

// adopt takes over the newest checkpoint that this machine keeps of the log of a record that it does not know: a copy
// of a database has another id, and the same log.
func (a *app) adopt(ctx context.Context, s store.Store, home string) error {
	kept := a.keptOf(s, home)
	if s.ID() == "" || exists(kept.File) {
		return nil
	}
	log, err := s.Log(ctx)
	if err != nil {
		return err
	}
	var newest history.Checkpoint
	var signed, tree []byte
	files, _ := filepath.Glob(filepath.Join(home, thread.ViewsOf("*"), filepath.Base(kept.File)))
	for _, file := range files {
		data, frontier, err := history.Kept{File: file}.Read(ctx)
		if err != nil {
			return fmt.Errorf("read checkpoint: %w", err)
		}
		c, err := history.ParseCheckpoint(string(data))
		if err == nil && c.Origin == history.Origin(log.Origin) && c.Size > newest.Size {
			newest, signed, tree = c, data, frontier
		}
	}
	if signed == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(kept.File), 0o700); err != nil {
		return fmt.Errorf("keep checkpoint: %w", err)
	}
	return kept.Write(ctx, signed, tree)
}
