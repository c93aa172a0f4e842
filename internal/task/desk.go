package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/plait-run/plait/internal/store"
)

// A Session is an instance's session.json.
type Session struct {
	Instance   string            `json:"instance"`
	Thread     string            `json:"threadId"`
	Parent     *store.Parent     `json:"parent"`
	ForkedFrom *store.ForkedFrom `json:"forkedFrom"`
	Cwd        string            `json:"cwd"`
	Vendor     string            `json:"vendorSession"`
	Attempts   []Stretch         `json:"attempts"`
}

// A Stretch says which bytes of the logs an attempt wrote.
type Stretch struct {
	ID     string   `json:"id"`
	Events [2]int64 `json:"events"` // from, to in runtime/events.jsonl
	Stderr [2]int64 `json:"stderr"` // from, to in runtime/stderr.log
}

// A Desk is an instance's directory, open for one attempt.
type Desk struct {
	Dir       string
	Raw       *os.File // appended to
	Stderr    *os.File
	Requests  *os.File
	artifacts *os.Root
	session   Session
	stretch   Stretch
}

// Open opens the desk of an instance for an attempt: its logs for appending and
// its artifacts and context directories empty.
func (d Dir) Open(row store.Thread, instance, attempt string) (*Desk, error) {
	if !instanceName.MatchString(instance) {
		return nil, fmt.Errorf("open desk: bad instance name %q", instance)
	}
	k := &Desk{Dir: d.Desk(instance)}
	if err := k.open(row, instance, attempt); err != nil {
		k.close()
		return nil, fmt.Errorf("open desk %s: %w", instance, err)
	}
	return k, nil
}

func (k *Desk) open(row store.Thread, instance, attempt string) (err error) {
	if err := os.MkdirAll(filepath.Join(k.Dir, "runtime"), 0o755); err != nil {
		return err
	}
	for _, dir := range []string{k.ArtifactsDir(), k.ContextDir()} {
		// An agent may have taken rights away; they are ours to give back.
		filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if e != nil && e.IsDir() {
				os.Chmod(path, 0o755)
			}
			return nil
		})
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if k.artifacts, err = os.OpenRoot(k.ArtifactsDir()); err != nil {
		return err
	}
	if k.Raw, k.stretch.Events[0], err = appendTo(filepath.Join(k.Dir, "runtime", "events.jsonl")); err != nil {
		return err
	}
	if k.Stderr, k.stretch.Stderr[0], err = appendTo(filepath.Join(k.Dir, "runtime", "stderr.log")); err != nil {
		return err
	}
	if k.Requests, _, err = appendTo(filepath.Join(k.Dir, "runtime", "requests.jsonl")); err != nil {
		return err
	}
	k.stretch.ID = attempt
	// An unreadable session.json is drawn anew: it is a view.
	if data, err := os.ReadFile(k.sessionFile()); err == nil {
		if json.Unmarshal(data, &k.session) != nil {
			k.session = Session{}
		}
	}
	k.session.Instance, k.session.Thread = instance, row.ID
	k.session.Parent, k.session.ForkedFrom = row.Parent, row.ForkedFrom
	if k.session.Cwd = row.Tree; k.session.Cwd == "" {
		k.session.Cwd = row.Workspace
	}
	k.stretch.Events[1], k.stretch.Stderr[1] = k.stretch.Events[0], k.stretch.Stderr[0]
	return k.note("")
}

// appendTo opens a log; it never follows a link that an agent may have put in
// its place.
func appendTo(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New(path + " is not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

func (k *Desk) sessionFile() string { return filepath.Join(k.Dir, "session.json") }

// ArtifactsDir is where the role leaves files.
func (k *Desk) ArtifactsDir() string { return filepath.Join(k.Dir, "artifacts") }

// ContextDir is what the agent may read of the record.
func (k *Desk) ContextDir() string { return filepath.Join(k.Dir, "context") }

// Artifacts returns the artifacts directory, held open since it was made.
func (k *Desk) Artifacts() *os.Root { return k.artifacts }

// Transcript returns what was appended to events.jsonl since the desk was
// opened, and how much that is.
func (k *Desk) Transcript() (io.ReadCloser, int64, error) { return since(k.Raw, k.stretch.Events[0]) }

// StderrLog returns what was appended to stderr.log since the desk was opened.
func (k *Desk) StderrLog() (io.ReadCloser, int64, error) { return since(k.Stderr, k.stretch.Stderr[0]) }

func since(f *os.File, from int64) (io.ReadCloser, int64, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	size := max(info.Size()-from, 0)
	return section{io.NewSectionReader(f, from, size), io.NopCloser(nil)}, size, nil
}

// Keep writes a file for the agent to read into the context directory.
func (k *Desk) Keep(name string, data []byte) error {
	if err := os.WriteFile(filepath.Join(k.ContextDir(), name), data, 0o444); err != nil {
		return fmt.Errorf("lend %s: %w", name, err)
	}
	return nil
}

// Close notes the vendor session and the stretch of the attempt, and closes the
// desk.
func (k *Desk) Close(vendor string) error {
	return errors.Join(k.note(vendor), k.close())
}

func (k *Desk) note(vendor string) error {
	if vendor != "" {
		k.session.Vendor = vendor
	}
	for i, f := range []*os.File{k.Raw, k.Stderr} {
		if info, err := f.Stat(); err == nil {
			*[]*int64{&k.stretch.Events[1], &k.stretch.Stderr[1]}[i] = info.Size()
		}
	}
	if n := len(k.session.Attempts); n > 0 && k.session.Attempts[n-1].ID == k.stretch.ID {
		k.session.Attempts[n-1] = k.stretch
	} else {
		k.session.Attempts = append(k.session.Attempts, k.stretch)
	}
	data, err := json.MarshalIndent(k.session, "", "  ")
	if err != nil {
		return err
	}
	return replace(k.sessionFile(), append(data, '\n'))
}

func (k *Desk) close() error {
	var err error
	for _, f := range []*os.File{k.Raw, k.Stderr, k.Requests} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if k.artifacts != nil {
		err = errors.Join(err, k.artifacts.Close())
	}
	return err
}

// Left returns what an attempt added to the logs of an instance, as far as its
// session.json tells, for an attempt whose Plait died. The stretch of the last
// attempt runs to the end of the file.
func (d Dir) Left(instance, attempt string) (events, stderr io.ReadCloser, sizes [2]int64, err error) {
	empty := section{io.MultiReader(), io.NopCloser(nil)}
	events, stderr = empty, empty
	if !instanceName.MatchString(instance) {
		return events, stderr, sizes, fmt.Errorf("read desk: bad instance name %q", instance)
	}
	data, err := os.ReadFile(filepath.Join(d.Desk(instance), "session.json"))
	if errors.Is(err, os.ErrNotExist) {
		return events, stderr, sizes, nil
	}
	var s Session
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return events, stderr, sizes, fmt.Errorf("read desk %s: %w", instance, err)
	}
	for i, a := range s.Attempts {
		if a.ID != attempt || i != len(s.Attempts)-1 {
			continue
		}
		open := func(name string, from int64, size *int64) (io.ReadCloser, error) {
			f, err := d.Log(instance, name)
			if err != nil || f == nil {
				return empty, err
			}
			r, n, err := since(f, from)
			*size = n
			return section{r, f}, err
		}
		var err1, err2 error
		events, err1 = open("events.jsonl", a.Events[0], &sizes[0])
		stderr, err2 = open("stderr.log", a.Stderr[0], &sizes[1])
		return events, stderr, sizes, errors.Join(err1, err2)
	}
	return events, stderr, sizes, nil
}
