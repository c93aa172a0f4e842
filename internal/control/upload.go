package control

import (
	"context"
	"errors"
	"io"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/worktree"
)

// An Upload says where a person's files go with a task that workers do: the task belongs to a workspace with a name,
// wherever workers have it, and nothing is done in the person's directory.
type Upload struct {
	Workspace string         // as place.Workspace has it
	Remote    string         // the Git remote from which workers fetch too, see worktree.Upload
	Told      func([]string) // called with the files that workers will not have; may be nil
}

// upload puts the files of a task, which are on this machine, into the record, and says so in its row. It returns what is
// new. The bytes are pinned under uploadPin.
func (c *Controller) upload(ctx context.Context, u *Upload, row *store.Thread) ([]store.Object, error) {
	if u == nil {
		return nil, nil
	}
	if c.cfg.Place == nil {
		return nil, usage("this program has no team")
	}
	up, err := c.trees.Upload(ctx, worktree.Upload{Row: *row, Remote: u.Remote}, func(r io.Reader) (dag.Hash, error) {
		blob, _, err := c.cfg.Store.Stage(ctx, uploadPin(row.ID), r)
		return blob, err
	})
	if errors.Is(err, worktree.ErrUpload) {
		return nil, usage("%w", err)
	}
	if err != nil {
		return nil, err
	}
	if u.Told != nil && len(up.Notes) > 0 {
		u.Told(up.Notes)
	}
	c.cfg.Log.Info("files uploaded", "task", row.ID, "bytes", up.Bytes, "onto", up.Onto)
	row.Files, row.Workspace, row.Tree = up.Files, u.Workspace, worktree.TreeIn(u.Workspace, row.ID, up.Inside)
	return up.Objects, nil
}

// uploadPin names what is uploaded for a task until the row of the task names it.
func uploadPin(task string) string { return task + ".upload" }
