package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/app/config"
)

// minFree is how many bytes a worker wants to be free where it writes: what a step leaves there, as git packs, session
// and logs, is seldom more, and a disk that fills up in the middle of a step costs what its agent did.
const minFree = 256 << 20

// readyWait bounds the start of git.
const readyWait = 10 * time.Second

// ready returns why a worker cannot work now, nil if it can. The texts stay the same while the cause does, and begin
// with it: others see only that (store.UnableLease).
func (a *app) ready(w *workplace) func(context.Context) error {
	dirs := a.teamDirs(w.home)
	return func(ctx context.Context) error {
		if _, err := config.Load(config.UserFile(), config.ProjectFile(w.workspace), a.getenv); err != nil {
			return fmt.Errorf("its configuration cannot be read: %w", err)
		}
		for _, dir := range dirs {
			if err := roomIn(dir); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, readyWait)
		defer cancel()
		if err := exec.CommandContext(ctx, "git", "--version").Run(); err != nil {
			return fmt.Errorf("git does not run: %w", err)
		}
		return nil
	}
}

// roomIn returns why nothing can be written to a directory.
func roomIn(dir string) error {
	err := probe(dir)
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		err = cause.Err
	}
	if err != nil {
		return fmt.Errorf("%w: cannot write to %s", err, dir)
	}
	if free, err := freeIn(dir); err == nil && free < minFree {
		return fmt.Errorf("no space left on device: less than %d MiB are free in %s", minFree>>20, dir)
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
