package taskdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// An EvidenceCheck says whether the evidence of a task is complete and still true.
type EvidenceCheck struct {
	Evidence  []CheckedEntry `json:"evidence"`
	Citations int            `json:"citations"` // in the files of the task
	Dangling  []Citation     `json:"dangling"`  // those that name nothing
	Unproven  []Citation     `json:"unproven"`  // those that name what was declined or interrupted
}

// A CheckedEntry is an entry that was checked. It has the state of its worst source.
type CheckedEntry struct {
	ID      string      `json:"id"`
	Kind    string      `json:"kind"`
	Title   string      `json:"title"`
	Node    dag.Hash    `json:"node"`
	State   string      `json:"state"`
	Sources []Freshness `json:"sources"`
	Broken  []string    `json:"broken"` // what is damaged or missing
}

// Damaged reports whether content is damaged or missing, or a citation names nothing, or what proves nothing.
func (c EvidenceCheck) Damaged() bool {
	return len(c.Dangling)+len(c.Unproven) > 0 ||
		slices.ContainsFunc(c.Evidence, func(e CheckedEntry) bool { return len(e.Broken) > 0 })
}

// Outdated reports whether a file that was anchored has changed or is gone.
func (c EvidenceCheck) Outdated() bool {
	return slices.ContainsFunc(c.Evidence, func(e CheckedEntry) bool { return e.State == Stale || e.State == Gone })
}

// CheckEvidence checks the entries of a task, and what the files of the task cite.
func (b *DirWriter) CheckEvidence(ctx context.Context, row store.Thread, entries []Entry) (EvidenceCheck, error) {
	c := EvidenceCheck{Evidence: []CheckedEntry{}, Dangling: []Citation{}, Unproven: []Citation{}}
	trees := NewTrees(b.Store, row)
	defer trees.Close()
	for _, e := range entries {
		checked, err := b.checkEntry(ctx, trees, e)
		if err != nil {
			return c, err
		}
		c.Evidence = append(c.Evidence, checked)
	}
	cited, err := At(row.Workspace, row.ID).Citations()
	if err != nil {
		return c, err
	}
	c.Citations = len(cited)
	index := NewIndex(entries)
	for _, citation := range cited {
		switch e, ok := index.Resolve(citation.ID, citation.Instance); {
		case !ok:
			c.Dangling = append(c.Dangling, citation)
		case e.Unfinished:
			c.Unproven = append(c.Unproven, citation)
		}
	}
	return c, nil
}

// states are those of sources, from the best to the worst.
var states = []string{Fresh, Unknown, Moved, Stale, Gone, Wrong, Unfinished}

func (b *DirWriter) checkEntry(ctx context.Context, trees *Trees, e Entry) (CheckedEntry, error) {
	c := CheckedEntry{ID: e.ID, Kind: e.Kind, Title: e.Title, Node: e.Node, State: Unknown, Broken: []string{}}
	if e.Broken != "" {
		c.Broken = append(c.Broken, e.Broken)
	}
	for _, h := range append(thread.Evidence{Sources: e.Sources}.Refs(), e.ArtifactRefs...) {
		err := readAll(ctx, b.Store, h)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
			c.Broken = append(c.Broken, fmt.Sprintf("%s: %v", h, err))
		} else if err != nil {
			return c, err
		}
	}
	root, err := trees.Of(ctx, e)
	if err != nil {
		return c, err
	}
	if c.Sources, err = Check(ctx, b.Store, e, root); err != nil {
		return c, err
	}
	for i, s := range c.Sources {
		if s.State == Wrong {
			c.Broken = append(c.Broken, "the lines of the transcript that it names are not what they were")
		}
		if i == 0 || slices.Index(states, s.State) > slices.Index(states, c.State) {
			c.State = s.State
		}
	}
	return c, nil
}

// readAll reads all of an object, which checks its hash.
func readAll(ctx context.Context, objects store.Objects, h dag.Hash) error {
	r, _, err := objects.Open(ctx, h)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}
