package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/app/config"
)

// minFree is how many bytes a worker wants to be free where it writes: what a step leaves there, as git packs, session
// and logs, is seldom more. Once there is less, it wants enoughFree before it works again: otherwise it would come and
// go with each step.
const (
	minFree    = 256 << 20
	enoughFree = minFree + minFree/4
)

// readyWait bounds a check: a disk may not answer at all.
const readyWait = 10 * time.Second

// A readiness finds out why a worker cannot work now. The texts stay the same while the cause does, and begin with it:
// others see only that (store.UnableLease).
type readiness struct {
	project string // the configuration of the worker's own workspace
	getenv  func(string) string
	dirs    []string
	room    func(dir string) (int64, error)
	seen    func(ctx context.Context) error // why the record is not what the worker has seen; nil: it is
	turn    chan struct{}                   // has a value while a check is under way, which may never end

	at    atomic.Value    // a string: where a check is
	short map[string]bool // directories that had too little room
}

func (a *app) readiness(w *workplace) *readiness {
	seen := &sighting{store: w.store, kept: a.keptOf(w.store, w.home), accept: a.program.Name + " proof accept"}
	return &readiness{project: config.ProjectFile(w.workspace), getenv: a.getenv, dirs: a.teamDirs(w.home),
		room: freeIn, seen: seen.look, turn: make(chan struct{}, 1), short: map[string]bool{}}
}

// check returns why the worker cannot work now, nil if it can.
func (r *readiness) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	hangs := func() error { return fmt.Errorf("no answer for %s from %v", readyWait, r.at.Load()) }
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return hangs()
	}
	why := make(chan error, 1)
	go func() {
		defer func() { <-r.turn }()
		why <- r.look(ctx)
	}()
	select {
	case err := <-why:
		return err
	case <-ctx.Done():
		return hangs()
	}
}

func (r *readiness) look(ctx context.Context) error {
	r.at.Store("its configuration")
	if _, err := config.Load(config.UserFile(), r.project, r.getenv); err != nil {
		return fmt.Errorf("its configuration cannot be read: %w", err)
	}
	for _, dir := range r.dirs {
		r.at.Store(dir)
		if err := r.roomIn(dir); err != nil {
			return err
		}
	}
	r.at.Store("git")
	if err := exec.CommandContext(ctx, "git", "--version").Run(); err != nil {
		return fmt.Errorf("git does not run: %w", err)
	}
	r.at.Store("the log of the record")
	return r.seen(context.WithoutCancel(ctx)) // the first look may take longer than a check
}

// roomIn returns why nothing can be written to a directory.
func (r *readiness) roomIn(dir string) error {
	err := probe(dir)
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		err = cause.Err
	}
	if err != nil {
		return fmt.Errorf("%w: cannot write to %s", err, dir)
	}
	wants := int64(minFree)
	if r.short[dir] {
		wants = enoughFree
	}
	free, err := r.room(dir)
	if r.short[dir] = err == nil && free < wants; r.short[dir] {
		return fmt.Errorf("%w: %s had less than %d MiB, and needs %d", syscall.ENOSPC,
			dir, minFree>>20, enoughFree>>20)
	}
	return nil
}

// probe writes a file to a directory, and removes it.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, ".ready-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString("ready\n")
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// freeIn returns how many bytes the file system of a directory has left for this user.
func freeIn(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
