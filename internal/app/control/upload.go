package control

import (
	"context"
	"errors"
	"io"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// An Upload says where a person's files go with a task that workers do. The task belongs to a named workspace,
// wherever workers have it, and does nothing in the person's directory.
type Upload struct {
	Workspace string         // as named by place.Workspace
	Remote    string         // the Git remote from which workers fetch too, see worktree.Upload
	Skipped   func([]string) // called with the files that workers will not get; may be nil
}

// upload puts the files of a task, which are on this machine, into the record, and notes that in its row. It
// returns the new objects. Their bytes are pinned under uploadPin.
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
	if u.Skipped != nil && len(up.Notes) > 0 {
		u.Skipped(up.Notes)
	}
	c.cfg.Log.Info("files uploaded", "task", row.ID, "bytes", up.Bytes, "onto", up.Onto)
	row.Files, row.Workspace, row.Tree = up.Files, u.Workspace, worktree.TreeIn(u.Workspace, row.ID, up.Inside)
	return up.Objects, nil
}

// uploadPin is the name of the pin on a task's upload, until the row of the task names the upload.
func uploadPin(task string) string { return task + ".upload" }
