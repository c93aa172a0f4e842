package thread

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// Kinds of evidence.
const (
	FileAnchor        = "file-anchor"
	CommandExecution  = "command-execution"
	RuntimeEventRange = "runtime-event-range"
)

// An Evidence is an EvidenceEntry: a pointer to bytes that prove a claim.
type Evidence struct {
	ID           string           `json:"id"` // unique within the instance: see [LocalID]
	Kind         string           `json:"kind"`
	Title        string           `json:"title"`
	Summary      string           `json:"summary"`
	CreatedAt    int64            `json:"createdAt"`
	By           string           `json:"by"` // instance
	Sources      []EvidenceSource `json:"sources"`
	ArtifactRefs []dag.Hash       `json:"artifactRefs"`
}

// An EvidenceSource says where the bytes came from. Fields that do not belong to the entry's kind
// are null.
type EvidenceSource struct {
	Path      *string  `json:"path"` // relative to the working tree, with slashes
	StartLine *int     `json:"startLine"`
	EndLine   *int     `json:"endLine"`
	Command   []string `json:"command"`
	Cwd       *string  `json:"cwd"` // relative to the working tree
	ExitCode  *int     `json:"exitCode"`
	StdoutRef dag.Hash `json:"stdoutRef"`
	StderrRef dag.Hash `json:"stderrRef"`
	EventsRef dag.Hash `json:"eventsRef"`
	Blob      dag.Hash `json:"blob"` // the bytes that are kept: anchored lines, a diff
	// Hash is the hash of the bytes that the claim rests on: the whole file, or all that is kept
	// of an output. It is not a ref: a file need not be kept. It is left out if it is not known,
	// and for a command that did not run to its end.
	Hash dag.Hash `json:"hash,omitzero"`
	Tree *string  `json:"tree"` // git tree they were taken from
}

// Refs lists the blobs that prove e, without duplicates.
func (e Evidence) Refs() []dag.Hash {
	var refs []dag.Hash
	for _, s := range e.Sources {
		for _, h := range []dag.Hash{s.Blob, s.StdoutRef, s.StderrRef, s.EventsRef} {
			if !h.IsZero() && !slices.Contains(refs, h) {
				refs = append(refs, h)
			}
		}
	}
	return refs
}

// Unfinished reports whether e rests on a command that was declined or interrupted, or on a tool
// call that was declined, interrupted or failed. Such an entry is kept, but it proves nothing.
// Older records give it a hash anyway, with an exit code below 0 or a summary that says that it
// failed.
func (e Evidence) Unfinished() bool {
	return slices.ContainsFunc(e.Sources, func(s EvidenceSource) bool {
		return s.Unfinished() || len(s.Command) > 0 && s.ExitCode == nil && strings.HasPrefix(e.Summary, "it failed")
	})
}

// Unfinished reports whether s is a command that was declined or interrupted. Its exit code is
// missing or below 0, and its output has no hash. The lines of a tool call without a result have
// no hash either.
func (s EvidenceSource) Unfinished() bool {
	if s.ExitCode != nil {
		return *s.ExitCode < 0
	}
	return (len(s.Command) > 0 || !s.EventsRef.IsZero()) && s.Hash.IsZero()
}

// Open opens what is kept of s under h, one of its refs: for a transcript, the lines in question;
// otherwise, all of it. size is -1 if it is not known in advance.
func (s EvidenceSource) Open(ctx context.Context, objects store.Objects, h dag.Hash) (r io.ReadCloser, size int64,
	err error) {
	r, e, err := objects.Open(ctx, h)
	if err != nil || h != s.EventsRef || s.StartLine == nil || s.EndLine == nil {
		return r, e.Size, err
	}
	return struct {
		io.Reader
		io.Closer
	}{Lines(r, *s.StartLine, *s.EndLine), r}, -1, nil
}

// LinesMatch reports whether the lines of the transcript that s names still have the hash in s.
func (s EvidenceSource) LinesMatch(ctx context.Context, objects store.Objects) (bool, error) {
	if s.StartLine == nil || s.EndLine == nil {
		return false, nil
	}
	r, _, err := objects.Open(ctx, s.EventsRef)
	if err != nil {
		return false, err
	}
	defer r.Close()
	sum, err := SumLines(r, *s.StartLine, *s.EndLine)
	return err == nil && sum == s.Hash, err
}

// SumLines returns the hash of lines of a text, see [Lines].
func SumLines(r io.Reader, from, to int) (dag.Hash, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, Lines(r, from, to)); err != nil {
		return dag.Hash{}, err
	}
	var h dag.Hash
	sum.Sum(h[:0])
	return h, nil
}

// Lines reads lines from to to, counted from 1, with their line feeds. Lines past the end are
// left out.
func Lines(r io.Reader, from, to int) io.Reader {
	return &lineReader{in: bufio.NewReaderSize(r, 64<<10), line: 1, from: from, to: to}
}

type lineReader struct {
	in             *bufio.Reader
	line, from, to int
	rest           []byte // unread part of the last chunk, in the buffer of in
}

func (l *lineReader) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if l.line > l.to {
			return 0, io.EOF
		}
		chunk, err := l.in.ReadSlice('\n')
		if len(chunk) == 0 {
			return 0, err
		}
		if l.line >= l.from {
			l.rest = chunk
		}
		if err == nil {
			l.line++
		} else if err != io.EOF && err != bufio.ErrBufferFull {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// FullID returns the id of an entry in its task. Instance names are unique there.
func FullID(instance, local string) string { return instance + "." + local }

var localID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// LocalID reports whether id is valid for an entry within its instance.
func LocalID(id string) bool { return len(id) <= 32 && localID.MatchString(id) }

// Evidence returns the evidence kept under h.
func (r *Reader) Evidence(ctx context.Context, h dag.Hash) (*Evidence, error) {
	return decodeAs[Evidence](ctx, r, h, dag.TypeEvidence)
}

// Inherited returns the evidence nodes that the threads of a forked task reach, ordered by the
// time of their steps: those of the task it was forked from, which are not in its own journal,
// and its own. A task that is not a fork inherits none.
func (r *Reader) Inherited(ctx context.Context, index store.Index, task string) ([]dag.Hash, error) {
	row, err := index.Thread(ctx, task)
	if err != nil || row.ForkedFrom == nil {
		return nil, err
	}
	rows, err := index.Threads(ctx, store.ThreadFilter{Task: task})
	if err != nil {
		return nil, err
	}
	todo := []dag.Hash{row.ForkedFrom.Step}
	for _, t := range rows {
		todo = append(todo, t.Head)
	}
	type made struct {
		at    int64
		nodes []dag.Hash
	}
	var steps []made
	seen := make(map[dag.Hash]bool)
	for len(todo) > 0 {
		h := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if h.IsZero() || seen[h] {
			continue
		}
		seen[h] = true
		v, err := r.load(ctx, h)
		if isMissing(err) {
			continue // verify reports it
		}
		if err != nil {
			return nil, err
		}
		switch n := v.(type) {
		case *Start:
			todo = append(todo, n.ParentState)
		case *State:
			todo = append(todo, n.ChildThread, n.Start)
			if len(n.Ancestors) > 0 {
				todo = append(todo, n.Ancestors[0])
			}
			for _, p := range n.Paths {
				todo = append(todo, p.Head)
			}
			d, err := r.Detail(ctx, n.Detail)
			if err != nil && !isMissing(err) {
				return nil, err
			}
			if d != nil && len(d.Evidence) > 0 {
				steps = append(steps, made{n.Timestamp, d.Evidence})
			}
		}
	}
	slices.SortStableFunc(steps, func(a, b made) int {
		return cmp.Or(cmp.Compare(a.at, b.at), slices.Compare(a.nodes[0][:], b.nodes[0][:]))
	})
	var nodes []dag.Hash
	for _, s := range steps {
		nodes = append(nodes, s.nodes...)
	}
	return nodes, nil
}

func isMissing(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt)
}

// Limits on anchors, in bytes.
const (
	MaxAnchored   = 64 << 20 // of the file
	MaxAnchorText = 1 << 20  // of the lines
)

// ErrAnchor is the error for a file or lines too large to anchor.
var ErrAnchor = errors.New("more than can be anchored")

// An Anchored is what Anchor found in a file.
type Anchored struct {
	Hash  dag.Hash // of the whole file
	Lines int      // in the file
	Text  []byte   // the requested lines, with their line feeds
}

// Anchor reads a file to its end and returns its hash and its lines from start to end, counted
// from 1. Lines past the end are left out. It returns ErrAnchor if there is too much to read.
func Anchor(r io.Reader, start, end int) (Anchored, error) {
	sum := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(io.LimitReader(r, MaxAnchored+1), sum), 64<<10)
	var a Anchored
	var read int64
	for line := 1; ; {
		chunk, err := in.ReadSlice('\n')
		if len(chunk) > 0 {
			a.Lines = line
			if line >= start && line <= end {
				a.Text = append(a.Text, chunk...)
			}
		}
		if read += int64(len(chunk)); read > MaxAnchored || len(a.Text) > MaxAnchorText {
			return Anchored{}, ErrAnchor
		}
		switch err {
		case nil:
			line++
		case bufio.ErrBufferFull:
		case io.EOF:
			sum.Sum(a.Hash[:0])
			return a, nil
		default:
			return Anchored{}, err
		}
	}
}
