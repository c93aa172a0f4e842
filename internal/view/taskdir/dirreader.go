package taskdir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// A DirReader reads a task directory anywhere, without a store: regular files only, each through
// the directory's root. Its content is not trusted: a file may be missing, broken, huge,
// or not a file. Methods may be called concurrently.
type DirReader struct {
	root *os.Root
	path string
}

// errNoCopy is the error for a directory that is not a task's.
var errNoCopy = errors.New("it is not the directory of a task: it has neither task.yaml nor events.jsonl")

// OpenCopy opens a copy of a task directory.
func OpenCopy(dir string) (*DirReader, error) {
	info, err := os.Stat(dir) // opening a pipe would block
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, fmt.Errorf("open copy of a task: %s: %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open copy of a task: %w", err)
	}
	for _, name := range []string{taskFile, eventsFile} {
		if _, err := root.Lstat(name); err == nil {
			return &DirReader{root, dir}, nil
		}
	}
	root.Close()
	return nil, fmt.Errorf("open copy of a task: %s: %w", dir, errNoCopy)
}

// Browse opens the directory to show its files to people. The error matches fs.ErrNotExist if there is none.
func (d Dir) Browse() (*DirReader, error) {
	root, err := d.openExisting()
	if err != nil {
		return nil, fmt.Errorf("open task directory: %w", err)
	}
	return &DirReader{root, d.Path()}, nil
}

// Close closes the directory. Open files stay open.
func (c *DirReader) Close() error { return c.root.Close() }

// Path returns the path of the directory.
func (c *DirReader) Path() string { return c.path }

const taskFile = "task.yaml"

// maxTaskFile limits task.yaml and session.json, in bytes.
const maxTaskFile = 4 << 20

// Task reads task.yaml.
func (c *DirReader) Task() (view.Task, error) {
	var v view.Task
	data, err := c.read(taskFile, maxTaskFile)
	if err == nil {
		err = yaml.Unmarshal(data, &v)
	}
	if err != nil {
		return view.Task{}, fmt.Errorf("read %s: %w", taskFile, err)
	}
	return v, nil
}

// Evidence reads the index of evidence. Without an index, it returns none.
func (c *DirReader) Evidence() ([]Entry, error) {
	var list []Entry
	data, err := c.read(evidenceFile, maxView)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", evidenceFile, err)
	}
	for i, e := range list { // an agent may have written the file
		list[i].Unfinished = thread.Evidence{Summary: e.Summary, Sources: e.Sources}.Unfinished()
	}
	return list, nil
}

// A Worker is an instance as described by its session.json.
type Worker struct {
	Session
	Name    string // of its directory
	Problem string // why session.json cannot be read, or ""
	Tries   int    // 0: unknown
	Files   []Document
}

// maxWorkers limits the list of instances.
const maxWorkers = 1000

// Workers lists the instances, by name.
func (c *DirReader) Workers() ([]Worker, error) {
	entries, err := c.list("agents", maxWorkers)
	if err != nil {
		return nil, err
	}
	var out []Worker
	for _, e := range entries {
		if e.IsDir() && isInstance(e.Name()) {
			out = append(out, c.Worker(e.Name()))
		}
	}
	return out, nil
}

// Worker reads the description of one instance.
func (c *DirReader) Worker(name string) Worker {
	w := Worker{Name: name}
	data, err := c.read(path.Join("agents", name, sessionFile), maxTaskFile)
	if err == nil {
		err = json.Unmarshal(data, &w.Session)
	}
	if err != nil {
		w.Session, w.Problem = Session{}, err.Error()
	}
	if told, err := c.read(path.Join("agents", name, "runtime", attemptsFile), maxTaskFile); err == nil {
		w.Tries = tries(told)
	}
	for _, file := range sessionFiles {
		file = path.Join("agents", name, file)
		if size, err := c.size(file); err == nil {
			w.Files = append(w.Files, Document{file, kindOf(file), size})
		}
	}
	return w
}

// tries counts the attempts in an attempts.jsonl.
func tries(told []byte) int {
	n, last := 0, ""
	for line := range bytes.Lines(told) {
		var s LogRange
		if json.Unmarshal(line, &s) == nil && s.ID != last {
			n, last = n+1, s.ID
		}
	}
	return n
}

// Kinds of documents that people read in a task directory.
const (
	DocReport   = "reports"
	DocContract = "contracts"
	DocDecision = "decisions"
	DocBoard    = "state board"
	DocNotes    = "notes of people"
	DocArtifact = "artifacts"
	DocEvidence = "evidence"
	DocSession  = "sessions" // what is known about an instance, and its raw logs
)

// A Document is a file in a task directory for people to read.
type Document struct {
	Name string // path inside the directory
	Kind string
	Size int64 // bytes
}

var documentKinds = map[string]string{
	reportsDir: DocReport, contractsDir: DocContract, decisionsDir: DocDecision,
	boardFile: DocBoard, notesFile: DocNotes, manifestFile: DocNotes, evidenceFile: DocEvidence,
}

// Limits on documents: how many are listed, and how deeply artifacts are nested.
const (
	maxDocuments     = 2000
	maxDocumentDepth = 8
)

// sessionFiles are the files of an instance that show how it worked.
var sessionFiles = []string{"artifacts/" + finalFile, stepFile, sessionFile, "runtime/events.jsonl",
	"runtime/stderr.log", "runtime/requests.jsonl", "runtime/" + attemptsFile}

// kindOf returns the kind of document that name is, "" for none.
func kindOf(name string) string {
	if !fs.ValidPath(name) || name == "." {
		return ""
	}
	if kind := documentKinds[name]; kind != "" {
		return kind
	}
	kind := documentKinds[path.Dir(name)]
	if slices.Contains(sharedDirs, path.Dir(name)) {
		return kind
	}
	parts := strings.Split(name, "/")
	if len(parts) > 2 && parts[0] == "agents" && isInstance(parts[1]) &&
		parts[2] != "artifacts" && slices.Contains(sessionFiles, path.Join(parts[2:]...)) {
		return DocSession
	}
	if len(parts) > 3 && len(parts) <= 3+maxDocumentDepth && parts[0] == "agents" &&
		isInstance(parts[1]) && parts[2] == "artifacts" {
		return DocArtifact
	}
	return ""
}

// Documents lists the documents; more reports whether there are others. Anything but a regular
// file is left out.
func (c *DirReader) Documents() (documents []Document, more bool, err error) {
	add := func(name string) {
		kind := kindOf(name)
		if kind == "" {
			return
		}
		if size, err := c.size(name); err == nil {
			documents = append(documents, Document{name, kind, size})
		}
	}
	var walk func(dir string, depth int)
	walk = func(dir string, depth int) {
		entries, one := c.list(dir, max(maxDocuments-len(documents), 0)+1) // one more than fits
		if one != nil {
			err = errors.Join(err, one)
			return
		}
		for _, e := range entries {
			switch name := path.Join(dir, e.Name()); {
			case len(documents) >= maxDocuments:
				more = true
				return
			case e.Type().IsRegular():
				add(name)
			case e.IsDir() && depth < maxDocumentDepth:
				walk(name, depth+1)
			}
		}
	}
	for _, dir := range sharedDirs {
		walk(dir, maxDocumentDepth)
	}
	add(boardFile)
	add(notesFile)
	add(manifestFile)
	agents, one := c.list("agents", maxWorkers)
	err = errors.Join(err, one)
	for _, a := range agents {
		if a.IsDir() && isInstance(a.Name()) && !more {
			walk(path.Join("agents", a.Name(), "artifacts"), 1)
		}
	}
	return documents, more, err
}

// Open opens a document and returns its size. Links are not followed. The error matches
// fs.ErrNotExist if name is not a document or not a regular file.
func (c *DirReader) Open(name string) (io.ReadCloser, int64, error) {
	err := fs.ErrNotExist
	if kindOf(name) != "" {
		var f *os.File
		var info fs.FileInfo
		if f, info, err = c.open(name); err == nil {
			return f, info.Size(), nil
		}
		var system syscall.Errno
		if !errors.As(err, &system) || system == syscall.ELOOP || system == syscall.ENOTDIR || system == syscall.ENXIO {
			err = fs.ErrNotExist // not a regular file, or replaced by a link while it was opened
		}
	}
	return nil, 0, fmt.Errorf("open %s: %w", name, err)
}
