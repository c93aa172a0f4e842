package control

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/worktree"
)

// upload puts the files that a task of the team begins with into the record, and says so in its row. It returns what
// is new. The bytes are pinned under uploadPin until the task is.
func (c *Controller) upload(ctx context.Context, s Spec, row *store.Thread) ([]store.Object, error) {
	if s.Team == "" {
		return nil, nil
	}
	if c.cfg.Place == nil {
		return nil, usage("this program has no team")
	}
	row.Workspace, row.Tree = s.Team, ""
	up, err := c.trees.Upload(ctx, worktree.Upload{Task: row.ID, Dir: cmp.Or(s.Tree, s.Workspace), Remote: s.Remote},
		func(r io.Reader) (dag.Hash, error) {
			blob, _, err := c.cfg.Store.Stage(ctx, uploadPin(row.ID), r)
			return blob, err
		})
	if errors.Is(err, worktree.ErrUpload) {
		return nil, usage("%w", err)
	}
	if err != nil {
		return nil, err
	}
	if s.Told != nil && len(up.Notes) > 0 {
		s.Told(up.Notes)
	}
	c.cfg.Log.Info("files uploaded", "task", row.ID, "bytes", up.Bytes, "onto", up.Onto)
	row.Files, row.Tree = up.Files, worktree.TreeIn(s.Team, row.ID, up.Inside)
	return up.Objects, nil
}

// uploadPin names what is uploaded for a task until the task is begun.
func uploadPin(task string) string { return task + ".upload" }
