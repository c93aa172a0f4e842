package attempt

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// Bounds on what an attempt is lent to read beyond what its prompt names.
const (
	maxLentSteps   = 4 * prompt.MaxExported
	maxLentObjects = 32 << 20 // bytes
	maxLentFiles   = 256
	maxLentBytes   = 32 << 20 // of files
)

// A lender puts the parts of the record that an agent may read into its context directory: nodes into one file,
// agent.Objects, where cas get and cas walk find them, and the bytes of artifacts as files.
type lender struct {
	*Runner
	desk    agent.Directory
	objects bytes.Buffer
	seen    map[dag.Hash]bool // nodes, and steps
	paths   map[string]bool
	blobs   map[dag.Hash]bool // as separate files
	steps   int
	files   int
	bytes   int64
}

// exportContext lends an attempt what its prompt names, what the prompt leaves out, and the chain of its
// callers.
func (e *Runner) exportContext(ctx context.Context, c *Thread, p *Prepared, desk agent.Directory) error {
	if desk.Agent().Context == "" {
		return nil
	}
	l := &lender{Runner: e, desk: desk, seen: map[dag.Hash]bool{}, paths: map[string]bool{}, blobs: map[dag.Hash]bool{}}
	for _, in := range slices.Concat(p.given.inputs, p.results.files) {
		if in.file == "" {
			continue
		}
		data := in.data
		if !in.blob.IsZero() {
			var err error
			if data, err = e.head(ctx, thread.EvidenceSource{}, in.blob); err != nil {
				return err
			}
		}
		if err := desk.Keep(in.file, data); err != nil {
			return err
		}
	}
	for _, a := range p.given.attachments {
		if a.Name != "" {
			if err := desk.Keep(a.Name, a.Data); err != nil {
				return err
			}
		}
	}
	if err := l.named(ctx, c, p); err != nil {
		return err
	}
	for _, u := range p.uses {
		var err error
		switch u.Form {
		case thread.FormOmitted, thread.FormSummary, thread.FormSession: // its earlier turns named files that were removed
			err = l.chain(ctx, prompt.Chain{To: u.To}, prompt.MaxExported)
		case thread.FormMeta:
			err = l.meta(ctx, u)
		}
		if err != nil {
			return err
		}
	}
	p.given.lent = l.seen
	if err := l.callers(ctx, c); err != nil || l.objects.Len() == 0 {
		return err
	}
	return desk.Keep(agent.Objects, l.objects.Bytes())
}

// named exports what the prompt names, whatever its size, since the prompt promises it.
func (l *lender) named(ctx context.Context, c *Thread, p *Prepared) error {
	files := append(p.given.named.Files, c.Lent.Files...)
	for _, in := range p.given.inputs {
		files = append(files, in.files...)
	}
	for _, f := range files {
		if err := l.node(ctx, f.Artifact); err != nil {
			return err
		}
		if err := l.file(ctx, f); err != nil {
			return err
		}
	}
	for _, chain := range append(p.given.named.Chains, c.Lent.Chains...) {
		if err := l.chain(ctx, chain, prompt.MaxExported); err != nil {
			return err
		}
	}
	return nil
}

// meta exports the steps of which a prompt has only the meta.
func (l *lender) meta(ctx context.Context, u thread.ContextUse) error {
	for s, err := range l.cfg.Record.Nodes().Walk(ctx, u.To) {
		if err != nil {
			return err
		}
		if err := l.step(ctx, s); err != nil || s.Hash == u.From {
			return err
		}
	}
	return nil
}

// callers exports the chain of callers, from the call up to the top: starts, prompts and each caller's newest
// steps.
func (l *lender) callers(ctx context.Context, c *Thread) error {
	if c.Caller.IsZero() {
		return nil
	}
	for at, h := c.Row.Start, c.Caller; ; {
		start, err := l.cfg.Record.Nodes().Start(ctx, at)
		if err == nil {
			err = l.node(ctx, at, start.Prompt)
		}
		if err == nil && !h.IsZero() {
			err = l.chain(ctx, prompt.Chain{To: h}, prompt.MaxExported)
		}
		if err != nil || h.IsZero() {
			return err
		}
		if at, err = l.cfg.Record.Nodes().StartOf(ctx, h); err != nil {
			return err
		}
		if start, err = l.cfg.Record.Nodes().Start(ctx, at); err != nil {
			return err
		}
		h = start.ParentState
	}
}

// chain exports the newest steps of a chain, at most that many, and what they called and joined.
func (l *lender) chain(ctx context.Context, chain prompt.Chain, most int) error {
	for s, err := range l.cfg.Record.Nodes().Walk(ctx, chain.To) {
		if err != nil {
			return err
		}
		if most--; s.Hash == chain.After || most < 0 || l.steps >= maxLentSteps || l.objects.Len() >= maxLentObjects {
			return nil
		}
		if err := l.step(ctx, s); err != nil {
			return err
		}
		if h := s.State.ChildThread; !h.IsZero() {
			if err := l.chain(ctx, prompt.Chain{To: h}, most); err != nil {
				return err
			}
		}
		for _, p := range s.State.Paths {
			if p.Head == s.State.Ancestors[0] {
				continue // its steps follow
			}
			if err := l.chain(ctx, prompt.Chain{To: p.Head, After: s.State.Fork}, most); err != nil {
				return err
			}
		}
	}
	return nil
}

// step exports a step: its node, its text and its artifacts.
func (l *lender) step(ctx context.Context, s thread.Step) error {
	if l.seen[s.Hash] {
		return nil
	}
	l.steps++
	if err := l.node(ctx, s.Hash, s.State.Content); err != nil {
		return err
	}
	content, err := l.cfg.Record.Nodes().Content(ctx, s.State.Content)
	if err != nil {
		return err
	}
	for _, h := range content.Artifacts {
		a, err := l.cfg.Record.Nodes().Artifact(ctx, h)
		if err == nil {
			err = l.node(ctx, h)
		}
		if err == nil && l.files < maxLentFiles && l.bytes+a.Size <= maxLentBytes {
			l.files, l.bytes = l.files+1, l.bytes+a.Size
			err = l.file(ctx, prompt.ExportedFile{Path: prompt.ExportName(s.Hash, h, a.Name), Artifact: h, Blob: a.Blob})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// node exports nodes, each once.
func (l *lender) node(ctx context.Context, hashes ...dag.Hash) error {
	for _, h := range hashes {
		if l.seen[h] {
			continue
		}
		l.seen[h] = true
		obj, err := l.cfg.Store.Get(ctx, h)
		if err != nil {
			return err
		}
		if obj.Redacted {
			obj.Data = store.Redacted(obj.Data)
		}
		fmt.Fprintf(&l.objects, "%s %d\n", h, len(obj.Data))
		l.objects.Write(obj.Data)
		l.objects.WriteByte('\n')
	}
	return nil
}

// file exports the bytes of an artifact, as a file named by its path and one named by its hash.
func (l *lender) file(ctx context.Context, f prompt.ExportedFile) error {
	if l.paths[f.Path] {
		return nil
	}
	l.paths[f.Path] = true
	if !l.blobs[f.Blob] {
		l.blobs[f.Blob] = true
		r, _, err := l.cfg.Store.Open(ctx, f.Blob)
		if err != nil {
			return err
		}
		defer r.Close()
		if err := l.desk.Copy(f.Blob.String(), r); err != nil {
			return err
		}
	}
	return l.desk.Link(f.Blob.String(), f.Path)
}
