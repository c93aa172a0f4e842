package verify

import (
	"context"
	"errors"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// checkEvidence compares the evidence of steps with what it points to: lines of the step's transcripts, and its
// artifacts.
func (c *check) checkEvidence(ctx context.Context, states []*object) error {
	for _, s := range states {
		d, ok := c.sound(s.state.Detail)
		if !ok || d.detail == nil {
			continue
		}
		for _, h := range d.detail.Evidence {
			e, ok := c.sound(h)
			if !ok || e.evidence == nil {
				continue
			}
			if err := c.checkHeard(ctx, e, transcripts(d.detail)); err != nil {
				return err
			}
			content, ok := c.sound(s.state.Content)
			for _, a := range e.evidence.ArtifactRefs {
				if ok && c.expectNode(e, "artifact", a, dag.TypeArtifact) != nil && !slices.Contains(content.refs, a) {
					c.wrong(e.hash, "evidence: its artifact %s does not belong to its step %s", a, s.hash)
				}
			}
		}
	}
	return nil
}

// transcripts returns the transcripts of a step: its own, and those of earlier attempts.
func transcripts(d *thread.Detail) []dag.Hash {
	out := []dag.Hash{d.Transcript}
	for _, a := range d.Attempts {
		out = append(out, a.Transcript)
	}
	return out
}

// checkHeard compares what an entry records about lines of transcripts with the lines.
func (c *check) checkHeard(ctx context.Context, e *object, said []dag.Hash) error {
	for _, src := range e.evidence.Sources {
		if src.EventsRef.IsZero() {
			continue
		}
		if !slices.Contains(said, src.EventsRef) {
			c.wrong(e.hash, "evidence: its events %s are not a transcript of its step", src.EventsRef)
		}
		if _, ok := c.sound(src.EventsRef); !ok || src.Unfinished() {
			continue
		}
		holds, err := src.LinesMatch(ctx, c.cfg.Store)
		switch {
		case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrCorrupt):
			// already reported for the blob
		case err != nil:
			return err
		case !holds:
			c.wrong(e.hash, "evidence: the lines that it names of the transcript %s are not what they were",
				src.EventsRef)
		}
	}
	return nil
}
