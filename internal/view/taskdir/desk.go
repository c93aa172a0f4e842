package taskdir

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
)

const attemptsFile = "attempts.jsonl" // in runtime: one LogRange per line

// A LogRange says which bytes of the logs an attempt wrote. One is written when the attempt
// begins, where start and end are equal, and one when it ends.
type LogRange struct {
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
	stretches *os.File
	root      *os.Root
	artifacts *os.Root
	context   *os.Root
	session   Session
	stretch   LogRange
}

// Desks opens desks for the rows of threads.
type Desks struct{}

// Attached returns the attachments of a thread's task, see Dir.Attachments.
func (Desks) Attached(row store.Thread) []agent.Attachment {
	return At(row.Workspace, row.Task).Attachments(cmp.Or(row.Tree, row.Workspace))
}

// Open opens the desk of an instance for an attempt: its logs for appending, and empty
// directories for artifacts and context. Artifacts are kept if it corrects the previous attempt.
func (Desks) Open(row store.Thread, instance, attempt string, v agent.Vendor) (agent.Directory, error) {
	d := At(row.Workspace, row.Task)
	k := &Desk{Dir: filepath.Join(d.Path(), "agents", instance)}
	root, err := d.desk(instance)
	if err == nil {
		k.root = root
		err = k.open(row, instance, attempt, v)
	}
	if err != nil {
		k.close()
		return nil, fmt.Errorf("open desk %s: %w", instance, err)
	}
	return k, nil
}

func (k *Desk) open(row store.Thread, instance, attempt string, v agent.Vendor) (err error) {
	unlock, alone := lockDesk(k.root, time.Second)
	defer unlock()
	if v.Corrects {
		k.artifacts, _ = k.openExisting("artifacts") // anything but a directory is replaced
	}
	// An empty directory is kept, unless it is in use by a drawing that is not aware of this
	// attempt.
	if k.artifacts == nil && alone {
		k.artifacts, _ = k.openEmpty("artifacts")
	}
	if k.artifacts == nil {
		if k.artifacts, err = k.recreate("artifacts"); err != nil {
			return err
		}
	}
	if k.context, err = k.openEmpty("context"); err != nil {
		if k.context, err = k.recreate("context"); err != nil {
			return err
		}
	}
	if k.Raw, k.stretch.Events[0], err = k.log("events.jsonl"); err != nil {
		return err
	}
	if k.Stderr, k.stretch.Stderr[0], err = k.log("stderr.log"); err != nil {
		return err
	}
	if k.Requests, _, err = k.log("requests.jsonl"); err != nil {
		return err
	}
	var told int64
	if k.stretches, told, err = k.log(attemptsFile); err != nil {
		return err
	}
	k.stretch.ID = attempt
	if err = k.recordRange(told); err != nil {
		return err
	}
	return k.change(func(s *Session) {
		s.about(row, instance)
		s.begin(v)
	})
}

// recordRange appends the stretch so far to a file of the given size.
func (k *Desk) recordRange(size int64) error {
	k.stretch.Events[1], k.stretch.Stderr[1] = end(k.Raw), end(k.Stderr)
	line, err := json.Marshal(k.stretch)
	if err != nil {
		return err
	}
	var last [1]byte
	if n, _ := k.stretches.ReadAt(last[:], size-1); n > 0 && last[0] != '\n' {
		line = append([]byte("\n"), line...) // a crash left a partial line
	}
	_, err = k.stretches.Write(append(line, '\n'))
	return err
}

// recreate replaces a directory by an empty one and holds it open.
func (k *Desk) recreate(name string) (*os.Root, error) {
	// An agent may have removed permissions from its directories.
	fs.WalkDir(k.root.FS(), name, func(path string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			k.root.Chmod(path, 0o755)
		}
		return nil
	})
	var err error
	for range 5 { // a drawing may be writing into it
		if err = k.root.RemoveAll(name); err == nil {
			err = k.root.Mkdir(name, 0o755)
		}
		if err == nil || errors.Is(err, fs.ErrExist) {
			// A drawing also creates the directory, and leaves it alone once an attempt is
			// running, as this one is.
			var dir *os.Root
			if dir, err = k.openEmpty(name); err == nil {
				return dir, nil
			}
		}
		if !errors.Is(err, syscall.ENOTEMPTY) {
			break
		}
	}
	return nil, err
}

// openExisting opens an existing directory, not a link.
func (k *Desk) openExisting(name string) (*os.Root, error) {
	info, err := k.root.Lstat(name)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: %w", name, syscall.ENOTDIR)
	}
	if err != nil {
		return nil, err
	}
	return k.root.OpenRoot(name)
}

// openEmpty opens a directory that is empty, and makes it writable for its owner.
func (k *Desk) openEmpty(name string) (*os.Root, error) {
	dir, err := k.openExisting(name)
	if err != nil {
		return nil, err
	}
	if err := dir.Chmod(".", 0o755); err != nil {
		dir.Close()
		return nil, err
	}
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s: %w", name, syscall.ENOTEMPTY)
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// log opens a raw log for appending, and returns its size.
func (k *Desk) log(name string) (*os.File, int64, error) {
	f, err := k.root.OpenFile(filepath.Join("runtime", name),
		os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Sys().(*syscall.Stat_t).Nlink != 1) {
		err = fmt.Errorf("runtime/%s is not a regular file with one link; move it away", name)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// Agent returns what the agent is given of the desk.
func (k *Desk) Agent() agent.Desk {
	return agent.Desk{Artifacts: k.ArtifactsDir(), Context: k.ContextDir(), Raw: k.Raw, Stderr: k.Stderr,
		Requests: k.Requests}
}

// ArtifactsDir returns where the role leaves files.
func (k *Desk) ArtifactsDir() string { return filepath.Join(k.Dir, "artifacts") }

// ContextDir returns the part of the record that the agent may read.
func (k *Desk) ContextDir() string { return filepath.Join(k.Dir, "context") }

// Artifacts returns the artifacts directory, held open since it was created.
func (k *Desk) Artifacts() *os.Root { return k.artifacts }

// Transcript returns what was appended to events.jsonl since the desk was opened, and its size.
func (k *Desk) Transcript() (io.ReadCloser, int64, error) { return since(k.Raw, k.stretch.Events[0]) }

// StderrLog returns what was appended to stderr.log since the desk was opened.
func (k *Desk) StderrLog() (io.ReadCloser, int64, error) { return since(k.Stderr, k.stretch.Stderr[0]) }

func since(f *os.File, from int64) (io.ReadCloser, int64, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	size := max(info.Size()-from, 0)
	return io.NopCloser(io.NewSectionReader(f, from, size)), size, nil
}

// Keep writes a file into the context directory for the agent to read. name is a slash-separated
// path.
func (k *Desk) Keep(name string, data []byte) error { return k.Copy(name, bytes.NewReader(data)) }

// Copy is like Keep, but takes a reader.
func (k *Desk) Copy(name string, from io.Reader) error {
	f, err := k.create(name)
	if err == nil {
		_, err = io.Copy(f, from)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("lend %s: %w", name, err)
	}
	return nil
}

func (k *Desk) create(name string) (*os.File, error) {
	if err := k.context.MkdirAll(path.Dir(name), 0o755); err != nil {
		return nil, err
	}
	return k.context.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
}

// Link gives a file in the context directory another name.
func (k *Desk) Link(file, name string) error {
	err := k.context.MkdirAll(path.Dir(name), 0o755)
	if err == nil {
		err = k.context.Link(file, name)
	}
	if err != nil {
		return fmt.Errorf("lend %s: %w", name, err)
	}
	return nil
}

// Close records the stretch of the attempt and its vendor session, and closes the desk.
func (k *Desk) Close(vendor string) error {
	err := k.recordRange(end(k.stretches))
	if vendor != "" && vendor != k.session.Vendor {
		unlock, _ := lockDesk(k.root, time.Second)
		err = errors.Join(err, k.change(func(s *Session) { s.Vendor = vendor }))
		unlock()
	}
	return errors.Join(err, k.close())
}

// change rewrites session.json if by changes it. If the file is unreadable, by gets what the desk
// last wrote.
func (k *Desk) change(by func(*Session)) error {
	was, _, err := readPlain(k.root, sessionFile, maxView)
	var s Session
	if err != nil || json.Unmarshal(was, &s) != nil {
		s = k.session
	}
	by(&s)
	k.session = s
	data, err := pretty(s)
	if err != nil || bytes.Equal(data, was) {
		return err
	}
	return replace(k.root, sessionFile, data)
}

func end(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

func (k *Desk) close() error {
	var err error
	for _, f := range []*os.File{k.Raw, k.Stderr, k.Requests, k.stretches} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	for _, r := range []*os.Root{k.artifacts, k.context, k.root} {
		if r != nil {
			err = errors.Join(err, r.Close())
		}
	}
	return err
}

// Left passes what an attempt added to the logs of an instance, as recorded in attempts.jsonl, to
// keep. It is for an attempt whose process died: it was the instance's last one, so its stretch
// extends to the end of the files.
func (Desks) Left(row store.Thread, instance, attempt string, keep func(events, stderr io.Reader) error) error {
	root, err := At(row.Workspace, row.Task).desk(instance)
	if err != nil {
		return fmt.Errorf("read desk %s: %w", instance, err)
	}
	k := &Desk{root: root}
	defer k.close()
	told, _, err := readPlain(root, filepath.Join("runtime", attemptsFile), maxView)
	told = bytes.TrimSpace(told)
	var last LogRange
	if err != nil || json.Unmarshal(told[bytes.LastIndexByte(told, '\n')+1:], &last) != nil || last.ID != attempt {
		return nil // it never opened its desk
	}
	if k.Raw, _, err = k.log("events.jsonl"); err == nil {
		k.Stderr, _, err = k.log("stderr.log")
	}
	if err != nil {
		return fmt.Errorf("read desk %s: %w", instance, err)
	}
	return keep(io.NewSectionReader(k.Raw, last.Events[0], max(end(k.Raw)-last.Events[0], 0)),
		io.NewSectionReader(k.Stderr, last.Stderr[0], max(end(k.Stderr)-last.Stderr[0], 0)))
}
