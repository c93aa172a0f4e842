// Package task lays out the task directory: plain files about one task, for
// people, grep and other tools.
//
//	.plait/tasks/<task>/
//	  README.md                          what this is and how to read it
//	  agents/<instance>/session.json     who worked here, and which bytes are whose
//	  agents/<instance>/runtime/         events.jsonl, stderr.log, requests.jsonl
//	  agents/<instance>/artifacts/       what the last attempt left
//	  agents/<instance>/context/         what the agent may read of the record
//
// In go names and bytes, out come paths and open files. Laws: raw logs are only
// appended to; everything else is replaced by writing anew and renaming; nothing
// here is read back to decide anything, and all of it but the logs can be drawn
// again from the store. Every path is made here, and nowhere else. Agents can write
// in the workspace: all is opened through the workspace's os.Root, so that no link
// they plant leads out of it.
package task

import (
	"errors"
	"fmt"
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

// open opens the directory, and makes it when it is not there.
func (d Dir) open() (*os.Root, error) {
	workspace, err := os.OpenRoot(d.workspace)
	if err != nil {
		return nil, err
	}
	defer workspace.Close()
	if err := workspace.MkdirAll(filepath.Join(d.rel(), "agents"), 0o755); err != nil {
		return nil, err
	}
	return workspace.OpenRoot(d.rel())
}

const readme = `# Task %s

Plain files about one task. The record itself is in Plait's store; what is here
is written from it or, in runtime/, is what agents said, byte for byte.

- agents/<instance>/session.json: the instance, its attempts, and which bytes of
  the logs belong to which attempt
- agents/<instance>/runtime/events.jsonl: what the agent said; stderr.log: its
  error output
- agents/<instance>/artifacts/: the files its last attempt left
- agents/<instance>/context/: what it was given to read of the record

` + "`plait thread show %s`" + ` prints the steps.
`

// Create makes the directory with its README.
func (d Dir) Create() error {
	root, err := d.open()
	if err != nil {
		return fmt.Errorf("create task directory: %w", err)
	}
	defer root.Close()
	return replace(root, "README.md", fmt.Appendf(nil, readme, d.task, d.task))
}

// Remove deletes the directory and all in it.
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

var instanceName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// desk opens the directory of an instance, and makes it when it is not there.
func (d Dir) desk(instance string) (*os.Root, error) {
	if !instanceName.MatchString(instance) {
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

// replace writes a file anew and renames it into place.
func replace(root *os.Root, name string, data []byte) error {
	tmp := name + ".new"
	root.Remove(tmp) // what a crash left, or an agent planted
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(tmp, name)
	}
	if err != nil {
		root.Remove(tmp)
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
