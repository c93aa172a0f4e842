package task

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

	"github.com/plait-run/plait/internal/thread"
	"github.com/plait-run/plait/internal/view"
)

// A DirReader is a task directory as it lies somewhere, read without a store: plain files
// only, each through the directory's root. Nothing in it is believed: a file may be
// missing, broken, huge or none at all. Methods may be called concurrently.
type DirReader struct {
	root *os.Root
	path string
}

// errNoCopy says that a directory is none of a task.
var errNoCopy = errors.New("it is not the directory of a task: it has neither task.yaml nor events.jsonl")

// OpenCopy opens a directory that was a task's, wherever it lies now.
func OpenCopy(dir string) (*DirReader, error) {
	info, err := os.Stat(dir) // a pipe would be waited for
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

// Browse opens the directory for reading what people read in it. fs.ErrNotExist.
func (d Dir) Browse() (*DirReader, error) {
	root, err := d.look()
	if err != nil {
		return nil, fmt.Errorf("open task directory: %w", err)
	}
	return &DirReader{root, d.Path()}, nil
}

// Close lets the directory go. Files that were opened stay open.
func (c *DirReader) Close() error { return c.root.Close() }

// Path is where the directory lies.
func (c *DirReader) Path() string { return c.path }

const taskFile = "task.yaml"

// maxTaskFile bounds task.yaml, and a session.json, in bytes.
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

// Evidence reads the index of evidence. Without one there is none.
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
	for i, e := range list { // an agent may have written there
		list[i].Unfinished = thread.Evidence{Summary: e.Summary, Sources: e.Sources}.Unfinished()
	}
	return list, nil
}

// A Worker is an instance as its session.json tells.
type Worker struct {
	Session
	Name    string // of its directory
	Problem string // why session.json cannot be read, or ""
	Tries   int    // 0: not known
	Files   []Document
}

// maxWorkers bounds the instances that are listed.
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

// Worker reads what is known of one instance.
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

// tries counts the attempts that an attempts.jsonl tells of.
func tries(told []byte) int {
	n, last := 0, ""
	for line := range bytes.Lines(told) {
		var s Stretch
		if json.Unmarshal(line, &s) == nil && s.ID != last {
			n, last = n+1, s.ID
		}
	}
	return n
}

// Kinds of documents: what people read in a task's directory.
const (
	DocReport   = "reports"
	DocContract = "contracts"
	DocDecision = "decisions"
	DocBoard    = "state board"
	DocNotes    = "notes of people"
	DocArtifact = "artifacts"
	DocEvidence = "evidence"
	DocSession  = "sessions" // what is known of an instance, and its raw logs
)

// A Document is a file of a task's directory that people read.
type Document struct {
	Name string // its path inside the directory
	Kind string
	Size int64 // bytes
}

var documentKinds = map[string]string{
	reportsDir: DocReport, contractsDir: DocContract, decisionsDir: DocDecision,
	boardFile: DocBoard, notesFile: DocNotes, manifestFile: DocNotes, evidenceFile: DocEvidence,
}

// Bounds of documents: how many are listed, and how deep artifacts lie.
const (
	maxDocuments     = 2000
	maxDocumentDepth = 8
)

// sessionFiles are those of an instance that tell how it worked.
var sessionFiles = []string{"artifacts/" + finalFile, stepFile, sessionFile, "runtime/events.jsonl", "runtime/stderr.log",
	"runtime/requests.jsonl", "runtime/" + attemptsFile}

// kindOf is the kind of document that a name can be of, "" for none.
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

// Documents lists the documents; more says that there are others. What is no plain file is
// left out.
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
		entries, one := c.list(dir, max(maxDocuments-len(documents), 0)+1) // one more than there is room for
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

// Open opens a document and tells how many bytes it has. It is a plain file of the
// directory or nothing: links are not followed. fs.ErrNotExist.
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
			err = fs.ErrNotExist // it is no plain file, or became a link while it was opened
		}
	}
	return nil, 0, fmt.Errorf("open %s: %w", name, err)
}
