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
// again from the store. Every path is made here, and nowhere else.
package task

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// A Dir is one task's directory.
type Dir string

// Root returns the directory that holds all tasks of a workspace.
func Root(workspace string) string { return filepath.Join(workspace, ".plait", "tasks") }

// At returns the directory of a task; it need not exist.
func At(workspace, task string) Dir { return Dir(filepath.Join(Root(workspace), task)) }

// Desk returns the directory of an instance.
func (d Dir) Desk(instance string) string { return filepath.Join(string(d), "agents", instance) }

var instanceName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

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
	if err := os.MkdirAll(filepath.Join(string(d), "agents"), 0o755); err != nil {
		return fmt.Errorf("create task directory: %w", err)
	}
	id := filepath.Base(string(d))
	return replace(filepath.Join(string(d), "README.md"), fmt.Appendf(nil, readme, id, id))
}

// Remove deletes the directory and all in it.
func (d Dir) Remove() error {
	if err := os.RemoveAll(string(d)); err != nil {
		return fmt.Errorf("remove task directory: %w", err)
	}
	return nil
}

// Log opens the raw log of an instance for reading; nil when there is none.
func (d Dir) Log(instance, name string) (*os.File, error) {
	if !instanceName.MatchString(instance) {
		return nil, fmt.Errorf("open log: bad instance name %q", instance)
	}
	f, err := os.Open(filepath.Join(d.Desk(instance), "runtime", name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", instance, err)
	}
	return f, nil
}

// replace writes a file anew and renames it into place.
func replace(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// section reads a stretch of a file and closes it.
type section struct {
	io.Reader
	io.Closer
}
