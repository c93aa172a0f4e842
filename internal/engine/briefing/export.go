package briefing

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// Bounds on what an attempt may read beyond what its prompt names.
const (
	maxExportSteps   = 4 * prompt.MaxExported
	maxExportObjects = 32 << 20 // bytes
	maxExportFiles   = 256
	maxExportBytes   = 32 << 20 // of files
)

// An exporter puts the parts of the record that an agent may read into its context directory: nodes into one file,
// agent.Objects, where cas get and cas walk find them, and the bytes of artifacts as files.
type exporter struct {
	*Briefer
	desk    agent.Directory
	objects bytes.Buffer
	seen    map[dag.Hash]bool // nodes, and steps
	paths   map[string]bool
	blobs   map[dag.Hash]bool // as separate files
	steps   int
	files   int
	bytes   int64
}

// An Export says what of the record an attempt may read.
type Export struct {
	Given Given
	Named prompt.Exports      // what the prompt says can be read
	Uses  []thread.ContextUse // what the prompt has, and leaves out
}

// Export puts into the context directory of an attempt what it is given, what its prompt names, what the prompt leaves
// out, and the chain of its callers. It returns the nodes and steps that the attempt can read.
func (b *Briefer) Export(ctx context.Context, at *record.Position, x Export, desk agent.Directory) (map[dag.Hash]bool,
	error) {
	if desk.Agent().Context == "" {
		return nil, nil
	}
	e := &exporter{Briefer: b, desk: desk, seen: map[dag.Hash]bool{}, paths: map[string]bool{}, blobs: map[dag.Hash]bool{}}
	if err := e.given(ctx, x.Given); err != nil {
		return nil, err
	}
	if err := e.named(ctx, at, x); err != nil {
		return nil, err
	}
	for _, u := range x.Uses {
		var err error
		switch u.Form {
		case thread.FormOmitted, thread.FormSummary, thread.FormSession: // its earlier turns named files that were removed
			err = e.chain(ctx, prompt.Chain{To: u.To}, prompt.MaxExported)
		case thread.FormMeta:
			err = e.meta(ctx, u)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := e.callers(ctx, at); err != nil || e.objects.Len() == 0 {
		return e.seen, err
	}
	return e.seen, desk.Keep(agent.Objects, e.objects.Bytes())
}

// given writes the files that an attempt is given.
func (e *exporter) given(ctx context.Context, g Given) error {
	if err := e.desk.Keep(agent.Instruction, []byte(g.instruction)); err != nil {
		return err
	}
	for _, in := range slices.Concat(g.inputs, g.results) {
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
		if err := e.desk.Keep(in.file, data); err != nil {
			return err
		}
	}
	for _, a := range g.attachments {
		if a.Name != "" {
			if err := e.desk.Keep(a.Name, a.Data); err != nil {
				return err
			}
		}
	}
	return nil
}

// named exports what the prompt names, whatever its size, since the prompt promises it.
func (e *exporter) named(ctx context.Context, at *record.Position, x Export) error {
	files := slices.Concat(x.Named.Files, at.Lent.Files)
	for _, in := range x.Given.inputs {
		files = append(files, in.files...)
	}
	for _, f := range files {
		if err := e.node(ctx, f.Artifact); err != nil {
			return err
		}
		if err := e.file(ctx, f); err != nil {
			return err
		}
	}
	for _, chain := range slices.Concat(x.Named.Chains, at.Lent.Chains) {
		if err := e.chain(ctx, chain, prompt.MaxExported); err != nil {
			return err
		}
	}
	return nil
}

// meta exports the steps of which a prompt has only the meta.
func (e *exporter) meta(ctx context.Context, u thread.ContextUse) error {
	for s, err := range e.cfg.Record.Nodes().Walk(ctx, u.To) {
		if err != nil {
			return err
		}
		if err := e.step(ctx, s); err != nil || s.Hash == u.From {
			return err
		}
	}
	return nil
}

// callers exports the chain of callers, from the call up to the top: starts, prompts and each caller's newest
// steps.
func (e *exporter) callers(ctx context.Context, at *record.Position) error {
	if at.Caller.IsZero() {
		return nil
	}
	for start, h := at.Row.Start, at.Caller; ; {
		node, err := e.cfg.Record.Nodes().Start(ctx, start)
		if err == nil {
			err = e.node(ctx, start, node.Prompt)
		}
		if err == nil && !h.IsZero() {
			err = e.chain(ctx, prompt.Chain{To: h}, prompt.MaxExported)
		}
		if err != nil || h.IsZero() {
			return err
		}
		if start, err = e.cfg.Record.Nodes().StartOf(ctx, h); err != nil {
			return err
		}
		if node, err = e.cfg.Record.Nodes().Start(ctx, start); err != nil {
			return err
		}
		h = node.ParentState
	}
}

// chain exports the newest steps of a chain, at most that many, and what they called and joined.
func (e *exporter) chain(ctx context.Context, chain prompt.Chain, most int) error {
	for s, err := range e.cfg.Record.Nodes().Walk(ctx, chain.To) {
		if err != nil {
			return err
		}
		if most--; s.Hash == chain.After || most < 0 || e.steps >= maxExportSteps || e.objects.Len() >= maxExportObjects {
			return nil
		}
		if err := e.step(ctx, s); err != nil {
			return err
		}
		if h := s.State.ChildThread; !h.IsZero() {
			if err := e.chain(ctx, prompt.Chain{To: h}, most); err != nil {
				return err
			}
		}
		for _, p := range s.State.Paths {
			if p.Head == s.Parent() {
				continue // its steps follow
			}
			if err := e.chain(ctx, prompt.Chain{To: p.Head, After: s.State.Fork}, most); err != nil {
				return err
			}
		}
	}
	return nil
}

// step exports a step: its node, its text and its artifacts.
func (e *exporter) step(ctx context.Context, s thread.Step) error {
	if e.seen[s.Hash] {
		return nil
	}
	e.steps++
	if err := e.node(ctx, s.Hash, s.State.Content); err != nil {
		return err
	}
	content, err := e.cfg.Record.Nodes().Content(ctx, s.State.Content)
	if err != nil {
		return err
	}
	for _, h := range content.Artifacts {
		a, err := e.cfg.Record.Nodes().Artifact(ctx, h)
		if err == nil {
			err = e.node(ctx, h)
		}
		if err == nil && e.files < maxExportFiles && e.bytes+a.Size <= maxExportBytes {
			e.files, e.bytes = e.files+1, e.bytes+a.Size
			err = e.file(ctx, prompt.ExportedFile{Path: prompt.ExportName(s.Hash, h, a.Name), Artifact: h, Blob: a.Blob})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// node exports nodes, each once.
func (e *exporter) node(ctx context.Context, hashes ...dag.Hash) error {
	for _, h := range hashes {
		if e.seen[h] {
			continue
		}
		e.seen[h] = true
		obj, err := e.cfg.Store.Get(ctx, h)
		if err != nil {
			return err
		}
		if obj.Redacted {
			obj.Data = store.Redacted(obj.Data)
		}
		fmt.Fprintf(&e.objects, "%s %d\n", h, len(obj.Data))
		e.objects.Write(obj.Data)
		e.objects.WriteByte('\n')
	}
	return nil
}

// file exports the bytes of an artifact, as a file named by its path and one named by its hash.
func (e *exporter) file(ctx context.Context, f prompt.ExportedFile) error {
	if e.paths[f.Path] {
		return nil
	}
	e.paths[f.Path] = true
	if !e.blobs[f.Blob] {
		e.blobs[f.Blob] = true
		r, _, err := e.cfg.Store.Open(ctx, f.Blob)
		if err != nil {
			return err
		}
		defer r.Close()
		if err := e.desk.Copy(f.Blob.String(), r); err != nil {
			return err
		}
	}
	return e.desk.Link(f.Blob.String(), f.Path)
}
