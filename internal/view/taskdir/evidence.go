package taskdir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// An Entry is an entry of shared/evidence/index.json: a pointer to bytes that prove a claim.
type Entry struct {
	ID           string                  `json:"id"` // <instance>.<local id>
	Kind         string                  `json:"kind"`
	Title        string                  `json:"title"`
	Summary      string                  `json:"summary"`
	CreatedAt    int64                   `json:"createdAt"` // Unix ms
	By           string                  `json:"by"`        // instance
	Thread       string                  `json:"thread"`    // "": it was inherited from the task's origin
	Sources      []thread.EvidenceSource `json:"sources"`
	ArtifactRefs []dag.Hash              `json:"artifactRefs"`
	Node         dag.Hash                `json:"node"` // in the record
	// Unfinished means that it rests on an unfinished command or tool call, and proves nothing.
	Unfinished bool   `json:"unfinished,omitempty"`
	Broken     string `json:"broken,omitempty"` // why the node cannot be read
}

// proofs are the entries of a task read so far.
type proofs struct {
	inheritedRead bool // inherited entries were read
	inherited     []dag.Hash
	from          []Entry // inherited
	own           []Entry
	unread        int // how many of own, at the end, are known only by their event
	known         map[dag.Hash]bool
	pos           int64 // of the last event
	changed       bool  // since the last drawing
}

// inherit reads what a fork inherits from its origin, once.
func (p *proofs) inherit(ctx context.Context, s store.Store, nodes *thread.Reader, task string) (err error) {
	if p.inheritedRead {
		return nil
	}
	p.inherited, err = nodes.Inherited(ctx, s, task)
	p.inheritedRead = err == nil
	return err
}

// add records an event of the task. Events may be repeated.
func (p *proofs) add(ev store.Event) {
	a, ok := event.Read(ev).(event.EvidenceAdded)
	if !ok || ev.Pos <= p.pos {
		return
	}
	if p.known == nil {
		p.known = make(map[dag.Hash]bool)
	}
	p.known[a.Hash] = true
	p.own = append(p.own, Entry{ID: a.ID, Kind: a.Kind, Title: a.Title, CreatedAt: ev.TS, By: ev.Instance,
		Thread: ev.Thread, Node: a.Hash})
	p.pos, p.changed = ev.Pos, true
	p.unread++
}

// read reads the nodes of new entries.
func (p *proofs) read(ctx context.Context, nodes *thread.Reader) error {
	for ; len(p.inherited) > 0; p.inherited = p.inherited[1:] {
		h := p.inherited[0]
		if p.known[h] {
			continue // it is one of the task's own entries
		}
		e := Entry{Node: h}
		if err := e.read(ctx, nodes); err != nil {
			return err
		}
		if e.Broken == "" {
			e.ID = thread.FullID(e.By, e.ID)
		}
		p.from, p.changed = append(p.from, e), true
	}
	for ; p.unread > 0; p.unread-- {
		e := &p.own[len(p.own)-p.unread]
		id := e.ID
		if err := e.read(ctx, nodes); err != nil {
			return err
		}
		e.ID = id
	}
	return nil
}

func (p *proofs) list() []Entry { return append(append([]Entry{}, p.from...), p.own...) }

// read fills in an entry from its node. A missing or damaged node is recorded in Broken.
func (e *Entry) read(ctx context.Context, r *thread.Reader) error {
	n, err := r.Evidence(ctx, e.Node)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrCorrupt):
		e.Broken = err.Error()
		e.Sources, e.ArtifactRefs = []thread.EvidenceSource{}, []dag.Hash{}
		return nil
	case err != nil:
		return err
	}
	e.ID, e.Kind, e.Title, e.Summary, e.CreatedAt, e.By = n.ID, n.Kind, n.Title, n.Summary, n.CreatedAt, n.By
	e.Sources, e.ArtifactRefs = orEmpty(n.Sources), orEmpty(n.ArtifactRefs)
	e.Unfinished = n.Unfinished()
	return nil
}

// draw draws index.json if there are new entries.
func (p *proofs) draw(ctx context.Context, d drawing) error {
	if err := p.read(ctx, d.nodes); err != nil {
		return err
	}
	if !d.all && !p.changed {
		return nil
	}
	err := drawJSON(d.root, evidenceFile, p.list())
	p.changed = err != nil
	return err
}

// Resolve finds the entry that id refers to in a text of an instance. A full id is looked up in
// the task; any other id is one of the instance's own, otherwise the only one of that name.
func Resolve(id, instance string, entries []Entry) (Entry, bool) {
	return NewIndex(entries).Resolve(id, instance)
}

// An Index finds entries by id in constant time.
type Index struct {
	ids   map[string]Entry
	named map[string][]Entry // by local id; at most two each
}

// NewIndex returns the index of entries.
func NewIndex(entries []Entry) *Index {
	x := &Index{map[string]Entry{}, map[string][]Entry{}}
	for _, e := range entries {
		if _, known := x.ids[e.ID]; !known {
			x.ids[e.ID] = e
		}
		if local, own := strings.CutPrefix(e.ID, thread.FullID(e.By, "")); own && len(x.named[local]) < 2 {
			x.named[local] = append(x.named[local], e)
		}
	}
	return x
}

// Resolve is [Resolve] among the entries of the index.
func (x *Index) Resolve(id, instance string) (Entry, bool) {
	full := id
	if !strings.Contains(id, ".") {
		full = thread.FullID(instance, id)
	}
	if e, ok := x.ids[full]; ok {
		return e, true
	}
	if named := x.named[id]; len(named) == 1 {
		return named[0], true
	}
	return Entry{}, false
}

// States of the sources of evidence.
const (
	Fresh   = "fresh"   // the bytes are unchanged
	Moved   = "moved"   // the file has changed, but still has the lines
	Stale   = "stale"   // the file has changed
	Gone    = "gone"    // the file does not exist
	Unknown = "unknown" // cannot be determined
	Wrong   = "wrong"   // the lines of the transcript have changed

	Unfinished = "unfinished" // the command or tool call did not finish: it proves nothing
)

// A Freshness is the current state of a source. If lines moved, it has their new place.
type Freshness struct {
	State     string `json:"state"`
	StartLine int    `json:"startLine,omitempty"`
	EndLine   int    `json:"endLine,omitempty"`
}

// Check compares each source of an entry with the current working tree. The output of a command
// never becomes stale; without a git tree it is not known what the command ran on. root is nil if
// the tree no longer exists.
func Check(ctx context.Context, objects store.Objects, e Entry, root *os.Root) ([]Freshness, error) {
	states := make([]Freshness, len(e.Sources))
	for i, s := range e.Sources {
		err := ctx.Err() // the caller may be gone
		if err != nil {
			return nil, fmt.Errorf("check evidence %s: %w", e.ID, err)
		}
		if states[i], err = freshness(ctx, objects, s, root); err != nil {
			return nil, fmt.Errorf("check evidence %s: %w", e.ID, err)
		}
		if e.Unfinished && len(s.Command) > 0 {
			states[i].State = Unfinished
		}
	}
	return states, nil
}

func freshness(ctx context.Context, objects store.Objects, s thread.EvidenceSource, root *os.Root) (Freshness, error) {
	switch {
	case s.Unfinished():
		return Freshness{State: Unfinished}, nil
	case !s.EventsRef.IsZero() && objects != nil:
		return linesMatch(ctx, objects, s)
	case s.Path == nil && s.Tree != nil:
		return Freshness{State: Fresh}, nil
	case s.Path == nil || s.Hash.IsZero() || root == nil:
		return Freshness{State: Unknown}, nil
	}
	data, err := readWhole(root, *s.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Freshness{State: Gone}, nil
	case errors.Is(err, thread.ErrAnchor), errors.Is(err, errNotPlain):
		return Freshness{State: Stale}, nil // what was anchored was a smaller regular file
	case err != nil:
		return Freshness{State: Unknown}, nil
	case dag.Sum(data) == s.Hash:
		return Freshness{State: Fresh}, nil
	case s.StartLine == nil || s.Blob.IsZero():
		return Freshness{State: Stale}, nil
	}
	kept, err := objects.Get(ctx, s.Blob)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		return Freshness{State: Stale}, nil // the check of blobs reports it
	}
	if err != nil {
		return Freshness{}, err
	}
	if at := nearest(data, kept.Data, *s.StartLine); at > 0 {
		return Freshness{Moved, at, at + bytes.Count(bytes.TrimSuffix(kept.Data, []byte("\n")), []byte("\n"))}, nil
	}
	return Freshness{State: Stale}, nil
}

// linesMatch compares the lines of a transcript with the hash recorded for them.
func linesMatch(ctx context.Context, objects store.Objects, s thread.EvidenceSource) (Freshness, error) {
	holds, err := s.LinesMatch(ctx, objects)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrCorrupt):
		return Freshness{State: Gone}, nil // the check of blobs reports it
	case err != nil:
		return Freshness{}, err
	case holds:
		return Freshness{State: Fresh}, nil
	}
	return Freshness{State: Wrong}, nil
}

// readWhole reads a regular file of a working tree. It follows links that stay inside the tree.
func readWhole(root *os.Root, name string) ([]byte, error) {
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotPlain
	}
	data, err := io.ReadAll(io.LimitReader(f, thread.MaxAnchored+1))
	if err == nil && len(data) > thread.MaxAnchored {
		err = thread.ErrAnchor
	}
	return data, err
}

// nearest returns the number of the line at which data contains lines, the one nearest to was if
// there are several, or 0. Lines that are all white space are never found.
func nearest(data, lines []byte, was int) int {
	lines = bytes.TrimSuffix(lines, []byte("\n"))
	if len(bytes.TrimSpace(lines)) == 0 {
		return 0
	}
	// This is the Knuth-Morris-Pratt search, since lines may repeat within themselves a million
	// times: no byte of data is compared twice.
	back := make([]int32, len(lines)+1) // for each prefix, the length of its longest border
	for i, n := 1, int32(0); i < len(lines); i++ {
		for n > 0 && lines[i] != lines[n] {
			n = back[n]
		}
		if lines[i] == lines[n] {
			n++
		}
		back[i+1] = n
	}
	best, line := 0, 1 // line is the number of the line after the one just read
	tall := bytes.Count(lines, []byte("\n"))
	for i, n := 0, int32(0); i < len(data); i++ {
		for n > 0 && data[i] != lines[n] {
			n = back[n]
		}
		if data[i] == lines[n] {
			n++
		}
		if data[i] == '\n' {
			line++
		}
		if int(n) == len(lines) {
			at, end := i+1-len(lines), i+1
			if (at == 0 || data[at-1] == '\n') && (end == len(data) || data[end] == '\n') {
				if first := line - tall; best == 0 || abs(first-was) < abs(best-was) {
					best = first
				}
			}
			n = back[n]
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }
