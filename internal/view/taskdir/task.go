// Package task lays out the task directory: plain files about one task, for people, grep and
// other tools.
//
//	.plait/tasks/<task>/
//	    README.md                          what this is and how to read it
//	    task.yaml                          the state of the task
//	    events.jsonl                       what happened to it
//	    shared/                            notes of people, state board, evidence, reports
//	    agents/<instance>/session.json     who worked here
//	    agents/<instance>/runtime/         raw logs; attempts.jsonl: which bytes are whose
//	    agents/<instance>/artifacts/       files of the last attempt, and final.json
//	    agents/<instance>/context/         what the agent may read of the record
//
// A [Dir] lays the directory out, a [Desk] is where an attempt works, a [DirWriter] draws the
// other files from the store, and [Export] packs the directory with the record. Laws:
//
//   - Raw logs and events.jsonl are only appended to; every other file is replaced by
//     writing a new one and renaming it.
//   - Nothing here is read back to make a decision except what people wrote: notes and
//     the manifest of attachments. Everything but that and the logs can be drawn again
//     from the store.
//   - Files that people wrote are never overwritten.
//   - Every path is made here, and nowhere else. Agents can write in the workspace:
//     everything is opened through its os.Root, so that no link they plant leads out.
//
// It never changes the store.
package taskdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// A Dir is one task's directory. It need not exist.
type Dir struct{ workspace, task string }

// At returns the directory of a task.
func At(workspace, task string) Dir { return Dir{workspace, task} }

// rel is the directory's path inside the workspace.
func (d Dir) rel() string { return filepath.Join(".plait", "tasks", d.task) }

// Path returns the directory's path.
func (d Dir) Path() string { return filepath.Join(d.workspace, d.rel()) }

// open opens the directory, creating it if necessary.
func (d Dir) open() (*os.Root, error) {
	workspace, err := os.OpenRoot(d.workspace)
	if err != nil {
		return nil, err
	}
	defer workspace.Close()
	if err := workspace.MkdirAll(d.rel(), 0o755); err != nil {
		return nil, err
	}
	root, err := workspace.OpenRoot(d.rel())
	if err != nil {
		return nil, err
	}
	if err := makeDir(root, "agents"); err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// openExisting opens an existing directory. The error matches fs.ErrNotExist if there is none.
func (d Dir) openExisting() (*os.Root, error) {
	workspace, err := os.OpenRoot(d.workspace)
	if err != nil {
		return nil, err
	}
	defer workspace.Close()
	info, err := workspace.Stat(d.rel())
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err) // includes dangling links
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a directory: %w", d.Path(), fs.ErrNotExist) // opening a pipe would block
	}
	return workspace.OpenRoot(d.rel())
}

// Remove deletes the directory and everything in it.
func (d Dir) Remove() error {
	workspace, err := os.OpenRoot(d.workspace)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer workspace.Close()
		err = workspace.RemoveAll(d.rel())
	}
	if err != nil {
		return fmt.Errorf("remove task directory: %w", err)
	}
	return nil
}

// instanceName does not limit the length: that would make it slow to compile, which would delay
// every command.
var instanceName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

func isInstance(name string) bool { return len(name) <= 63 && instanceName.MatchString(name) }

// desk opens the directory of an instance, creating it if necessary.
func (d Dir) desk(instance string) (*os.Root, error) {
	if !isInstance(instance) {
		return nil, fmt.Errorf("bad instance name %q", instance)
	}
	root, err := d.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	dir := filepath.Join("agents", instance)
	if err := root.MkdirAll(filepath.Join(dir, "runtime"), 0o755); err != nil {
		return nil, err
	}
	return root.OpenRoot(dir)
}
