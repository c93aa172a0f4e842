package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// proofs are the entries of evidence on a page.
type proofs struct {
	Entries []evidenceCard
	More    int
}

// An evidenceCard is an entry of evidence with its sources described.
type evidenceCard struct {
	taskdir.Entry
	Sources []source
	Files   []storedContent // the artifacts that it refers to
}

// A source describes where the bytes of an entry came from, and whether they are unchanged.
type source struct {
	Words, Command string
	Fresh, State   string
	Parts          []storedContent
}

// storedContent is the part of a source that the record stores.
type storedContent struct {
	Name, Text, Load string
	Diff, Cut        bool
}

// Limits of a page: entries, and bytes of stored content.
const (
	shownEntries = 300
	shownKept    = 32 << 10
	shownSources = 20
	checkTime    = 3 * time.Second // for reading all files; those not read by then are not checked
)

// evidenceCards describes entries. trees have their files, nil if they are not known.
func (s *Server) evidenceCards(ctx context.Context, entries []taskdir.Entry, trees *taskdir.Trees) (proofs, error) {
	checks, stop := context.WithTimeout(ctx, checkTime)
	defer stop()
	var out proofs
	for i, e := range entries {
		if i == shownEntries {
			out.More = len(entries) - i
			break
		}
		var root *os.Root // without one, nothing can be checked
		if trees != nil {
			var err error
			if root, err = trees.Of(ctx, e); err != nil {
				return out, err
			}
		}
		list, err := taskdir.Check(checks, s.cfg.Store, e, root)
		switch {
		case err != nil && checks.Err() != nil && ctx.Err() == nil:
			list = nil // it would take too long
		case err != nil:
			return out, err
		}
		p := evidenceCard{Entry: e}
		for i, src := range e.Sources {
			if i == shownSources {
				break
			}
			one := source{Words: inWords(e.Kind, src), Command: strings.Join(src.Command, " ")}
			one.State, one.Fresh = freshness(list, i)
			one.Fresh = s.cfg.Program.Says(one.Fresh)
			if one.Parts, err = s.kept(ctx, src); err != nil {
				return out, err
			}
			p.Sources = append(p.Sources, one)
		}
		if p.Files, err = s.artifacts(ctx, e.ArtifactRefs); err != nil {
			return out, err
		}
		out.Entries = append(out.Entries, p)
	}
	return out, nil
}

// artifacts lists artifacts with links to their bytes. Without a store it returns nothing.
func (s *Server) artifacts(ctx context.Context, refs []dag.Hash) ([]storedContent, error) {
	if s.cfg.Store == nil {
		return nil, nil
	}
	var out []storedContent
	for _, h := range refs {
		a, err := thread.NewReader(s.cfg.Store).Artifact(ctx, h)
		switch {
		case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrCorrupt):
			out = append(out, storedContent{Name: err.Error()})
		case err != nil:
			return nil, err
		default:
			load := "/blobs/" + a.Blob.String() + "?name=" + url.QueryEscape(a.Name)
			out = append(out, storedContent{Name: a.Name, Load: load})
		}
	}
	return out, nil
}

// freshness returns the state of a source, and a description of it. list is nil if nothing was
// checked.
func freshness(list []taskdir.Freshness, i int) (state, words string) {
	if list == nil {
		return taskdir.Unknown, "not checked here; plait task evidence check does"
	}
	switch f := list[i]; f.State {
	case taskdir.Unknown:
		return f.State, "not checkable"
	case taskdir.Moved:
		return f.State, "moved to " + lines(f.StartLine, f.EndLine)
	case taskdir.Unfinished:
		return f.State, "proves nothing"
	case taskdir.Wrong:
		return f.State, "not what it was"
	default:
		return f.State, f.State
	}
}

// inWords describes a source.
func inWords(kind string, s thread.EvidenceSource) string {
	switch {
	case len(s.Command) > 0:
		text := "A command was run"
		if s.Unfinished() {
			text = "A command was declined or interrupted"
		}
		if s.Cwd != nil && *s.Cwd != "" && *s.Cwd != "." {
			text += " in " + *s.Cwd
		}
		if s.ExitCode == nil || s.Unfinished() {
			return text + ":"
		}
		return fmt.Sprintf("%s and ended with exit code %d:", text, *s.ExitCode)
	case !s.EventsRef.IsZero() || kind == thread.RuntimeEventRange:
		text := "A tool was called: the transcript"
		if s.Unfinished() {
			text = "A tool call failed, or was declined or interrupted: the transcript"
		}
		return text + span(s, ", ")
	case s.Path != nil && s.StartLine != nil:
		return "The file " + *s.Path + span(s, ", ")
	case s.Path != nil && kind == thread.FileAnchor:
		return "The file " + *s.Path
	case s.Path != nil:
		return "The file " + *s.Path + " was changed"
	}
	return "A source without a description"
}

func span(s thread.EvidenceSource, before string) string {
	if s.StartLine == nil {
		return ""
	}
	to := *s.StartLine
	if s.EndLine != nil {
		to = *s.EndLine
	}
	return before + lines(*s.StartLine, to)
}

func lines(from, to int) string {
	if from == to {
		return fmt.Sprintf("line %d", from)
	}
	return fmt.Sprintf("lines %d to %d", from, to)
}

// kept reads the parts of a source that the record stores. Without a store it returns nothing.
func (s *Server) kept(ctx context.Context, src thread.EvidenceSource) ([]storedContent, error) {
	if s.cfg.Store == nil {
		return nil, nil
	}
	var out []storedContent
	for _, part := range []struct {
		name string
		hash dag.Hash
	}{{"what it printed", src.StdoutRef}, {"its error output", src.StderrRef}, {"the lines", src.Blob},
		{"the events", src.EventsRef}} {
		if part.hash.IsZero() {
			continue
		}
		k := storedContent{Name: part.name, Load: "/blobs/" + part.hash.String() + "?name=evidence.txt"}
		data, _, err := src.Open(ctx, s.cfg.Store, part.hash)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
			k.Text, k.Load = err.Error(), ""
			out = append(out, k)
			continue
		}
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(io.LimitReader(data, shownKept+1))
		data.Close()
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			return nil, err
		}
		k.Cut = len(text) > shownKept
		k.Text = strings.ToValidUTF8(string(text[:min(len(text), shownKept)]), "\ufffd")
		if part.hash == src.Blob && src.StartLine == nil {
			k.Name, k.Diff = "the change", strings.Contains(k.Text, "\n@@ ") || strings.HasPrefix(k.Text, "@@ ")
			k.Name = cmp.Or(map[bool]string{false: "what is kept of it"}[k.Diff], k.Name)
		}
		out = append(out, k)
	}
	return out, nil
}

// newCiter returns a citer for a file of a task directory. base is the URL of its evidence.
func newCiter(entries []taskdir.Entry, name, base string) citer {
	by := ""
	if parts := strings.Split(path.Clean(name), "/"); len(parts) > 1 && parts[0] == "agents" {
		by = parts[1]
	}
	index := sync.OnceValue(func() *taskdir.Index { return taskdir.NewIndex(entries) })
	return func(id string) (string, bool) {
		e, ok := index().Resolve(id, by)
		if !ok {
			return "", false
		}
		return base + "#" + e.ID, !e.Unfinished
	}
}
