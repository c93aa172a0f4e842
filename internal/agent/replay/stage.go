package replay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/proc"
)

// stage shows an agent the tree of its thread at the path of the recorded thread's tree, since a model's
// answers name paths, and lets it change only this tree and the task's own files. The caller calls cleanUp after
// the attempt.
func (p *Player) stage(ctx context.Context, then, now store.Thread, req *agent.Request) (cleanUp func(),
	err error) {
	cleanUp = func() {}
	rootThen, rootNow := p.cfg.Task, now
	if now.Root != now.ID {
		if rootNow, err = p.cfg.Store.Thread(ctx, now.Root); err != nil {
			return nil, err
		}
	}
	mounts, err := tree(rootThen, rootNow)
	if err != nil {
		return nil, err
	}
	if now.Tree != rootNow.Tree {
		own, err := tree(then, now)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, own...)
	}
	// The task's own directories, at the paths they had for the recorded task.
	mine := func(dir string) {
		if dir == "" {
			return
		}
		mounts = append(mounts, proc.Mount{From: dir, At: dir, Write: true})
		if was := strings.ReplaceAll(dir, now.Task, then.Task); exists(was) {
			mounts = append(mounts, proc.Mount{From: dir, At: was, Write: true})
		}
	}
	for _, dir := range []string{req.Home, req.Scratch} {
		if dir != "" {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, err
			}
		}
		mine(dir)
	}
	mine(req.Desk.Artifacts)
	rel, err := filepath.Rel(worktree.Of(now), req.Dir)
	if err != nil {
		return nil, err
	}
	if !exists(filepath.Join(worktree.Of(now), rel)) {
		return nil, unrecorded("%s is not among the recorded files: Git ignores it, or a program made it, which "+
			"--run-commands runs again", rel)
	}
	req.Dir = filepath.Join(worktree.Of(then), rel)
	if top, _, made := worktree.Made(then); made && !exists(top) { // it was removed after the merge
		if err := os.MkdirAll(req.Dir, 0o755); err != nil {
			return nil, err
		}
		cleanUp = func() { os.RemoveAll(top) } // only mount points are left in it
	}
	stage := proc.Sandbox{Network: true, Mounts: mounts}
	req.Wrap = func(path string, args []string, needs agent.Needs) (string, []string) {
		its := stage
		its.Own = needs.Own
		return its.Around(p.cfg.Bwrap, path, args)
	}
	return cleanUp, nil
}

// kept are the places in a person's tree that an agent sees unchanged and cannot change: no git tree has them,
// or git has them as they are now.
var kept = []string{".git", ".plait"}

// lent are places in the person's tree that an agent sees if its own tree lacks them.
var lent = []string{".workflows", ".codex", ".claude"}

// tree returns the mounts that put a thread's own tree at the path of the recorded thread's tree.
func tree(then, now store.Thread) ([]proc.Mount, error) {
	top, _, _ := worktree.Made(now)
	rel, err := filepath.Rel(top, now.Tree)
	if err != nil {
		return nil, err
	}
	at := worktree.Of(then)
	if rel != "." {
		at = strings.TrimSuffix(at, string(filepath.Separator)+rel)
	}
	if _, _, made := worktree.Made(then); made {
		return []proc.Mount{{At: filepath.Dir(at)}, {From: top, At: at, Write: true}}, nil
	}
	mounts := []proc.Mount{{From: top, At: at, Write: true}}
	see := func(place string) error {
		rel, err := filepath.Rel(at, place)
		if err != nil {
			return err
		}
		info, err := os.Stat(place)
		if err != nil {
			return nil // there is nothing to show
		}
		if err := mountPoint(filepath.Join(top, rel), info.IsDir()); err != nil {
			return err
		}
		mounts = append(mounts, proc.Mount{From: place, At: place})
		return nil
	}
	for _, name := range kept {
		dir := at
		if name == ".plait" {
			dir = then.Workspace
		}
		if err := see(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	for _, name := range lent {
		list, err := os.ReadDir(filepath.Join(top, name))
		if (err == nil || errors.Is(err, os.ErrNotExist)) && len(list) == 0 {
			if err := see(filepath.Join(at, name)); err != nil {
				return nil, err
			}
		}
	}
	return mounts, nil
}

// mountPoint makes sure that a path exists on which a directory, or a file, can be mounted.
func mountPoint(path string, dir bool) error {
	info, err := os.Lstat(path)
	if err == nil && info.IsDir() == dir {
		return nil
	}
	if err == nil {
		if err := os.Remove(path); err != nil { // the file that links a worktree to its git repository
			return err
		}
	}
	if dir {
		return os.MkdirAll(path, 0o755)
	}
	return os.WriteFile(path, nil, 0o600)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
