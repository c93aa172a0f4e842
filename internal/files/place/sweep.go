package place

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/store"
)

// A stay is what a task keeps in this place.
type stay struct {
	dir  string
	task string
	size int64
	used time.Time
}

// Sweep removes what is not needed here: working trees of threads that have ended, and repositories of tasks
// that have ended or are gone. What a task's steps left is in the record. A working tree that has what the record
// cannot have stays as long as its task, and the log names it. While the place is too large, Sweep also removes
// repositories of tasks that are not being driven, with all that they have, the longest unused first.
func (p *Place) Sweep(ctx context.Context) error {
	stays, err := p.stays()
	if err != nil {
		return fmt.Errorf("tidy up %s: %w", p.cfg.Dir, err)
	}
	var errs error
	var left []stay
	var total int64
	for _, s := range stays {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		gone, err := p.clear(ctx, s)
		if errs = errors.Join(errs, err); gone || err != nil {
			continue
		}
		if p.cfg.Most > 0 {
			s.size = size(s.dir)
			total += s.size
			left = append(left, s)
		}
	}
	slices.SortFunc(left, func(a, b stay) int { return a.used.Compare(b.used) })
	for _, s := range left {
		if total <= p.cfg.Most {
			break
		}
		gone, err := p.remove(ctx, s, func([]store.Thread) bool { return true })
		if errs = errors.Join(errs, err); gone {
			total -= s.size
		}
	}
	return errs
}

// stays returns what tasks keep here.
func (p *Place) stays() (all []stay, err error) {
	dirs, err := filepath.Glob(filepath.Join(p.tasks, "*", "*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		_, task, rest, ok := p.of(dir)
		if info, err := os.Lstat(dir); err == nil && ok && rest == "" && info.IsDir() {
			s := stay{dir: dir, task: task, used: info.ModTime()}
			stamps, _ := filepath.Glob(filepath.Join(dir, ".plait", "worktrees", "*.at"))
			for _, name := range stamps { // written whenever a step of the tree was recorded
				if info, err := os.Lstat(name); err == nil && info.ModTime().After(s.used) {
					s.used = info.ModTime()
				}
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// clear removes what a task does not need, and reports whether that was all of it.
func (p *Place) clear(ctx context.Context, s stay) (gone bool, err error) {
	rows, err := p.Store().Threads(ctx, store.ThreadFilter{Task: s.task})
	if err != nil {
		return false, err
	}
	stays := false
	for _, row := range rows { // it is not driven again, and a join reads its files from the record
		if !row.Ended() {
			continue
		}
		top := filepath.Join(s.dir, ".plait", "worktrees", row.ID)
		if p.keeps(ctx, row, top) {
			stays = true
			continue
		}
		for _, name := range []string{top + ".at", top + ".ready", top} {
			if err := git.RemoveAll(name); err != nil {
				return false, err
			}
		}
	}
	if stays {
		if _, known := p.kept.Load(s.task); !known && !goesOn(rows, s.task) {
			p.kept.Store(s.task, true)
			p.ended(s.task)
		}
		return false, nil
	}
	return p.remove(ctx, s, func(rows []store.Thread) bool { return !goesOn(rows, s.task) })
}

// goesOn reports whether a task is in the record and has not ended.
func goesOn(rows []store.Thread, task string) bool {
	return slices.ContainsFunc(rows, func(r store.Thread) bool { return r.ID == task && !r.Ended() })
}

// keeps reports whether the working tree of an ended thread stays, and says once why.
func (p *Place) keeps(ctx context.Context, row store.Thread, top string) bool {
	if p.cfg.Left == nil {
		return false
	}
	if _, known := p.kept.Load(top); known {
		_, err := os.Lstat(top)
		return err == nil
	}
	if _, err := os.Lstat(top); err != nil {
		return false
	}
	if has, err := p.cfg.Left(ctx, row); err == nil && !has {
		return false
	}
	if ctx.Err() == nil {
		p.kept.Store(top, true)
		p.cfg.Log.Warn("a working tree stays, since it has what the record cannot have", "dir", top)
	}
	return true
}

// ended removes what else this machine keeps for a task.
func (p *Place) ended(task string) {
	if p.cfg.Ended == nil {
		return
	}
	if err := p.cfg.Ended(task); err != nil {
		p.cfg.Log.Warn("remove what agents kept", "task", task, "error", err)
	}
}

// remove removes the repository of a task with everything in it, if may allows that for the task's threads and
// none of them is being driven. A driver acquires the lease of its thread before it looks here.
func (p *Place) remove(ctx context.Context, s stay, may func([]store.Thread) bool) (bool, error) {
	p.mu.Lock()
	aside, err := p.setAside(ctx, s, may)
	p.mu.Unlock()
	if err != nil || aside == "" {
		return false, err
	}
	p.cfg.Log.Info("removed what a task had here", "task", s.task)
	return true, git.RemoveAll(aside)
}

func (p *Place) setAside(ctx context.Context, s stay, may func([]store.Thread) bool) (string, error) {
	rows, err := p.cfg.Store.Threads(ctx, store.ThreadFilter{Task: s.task})
	if err != nil || !may(rows) {
		return "", err
	}
	for _, row := range rows {
		if row.Ended() {
			continue
		}
		if _, held, err := p.cfg.Store.Holder(ctx, store.ThreadLease(row.ID)); err != nil || held {
			return "", err
		}
	}
	trash := filepath.Join(p.cfg.Dir, "trash")
	if err := os.MkdirAll(trash, 0o700); err != nil {
		return "", err
	}
	aside, err := os.MkdirTemp(trash, "task-")
	if err != nil {
		return "", err
	}
	err = os.Rename(s.dir, filepath.Join(aside, s.task))
	if err == nil && !goesOn(rows, s.task) {
		p.ended(s.task) // before another driver can prepare the task again
	}
	return aside, err
}

// size adds up the files below a directory.
func size(dir string) (n int64) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}
