package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// program returns the agent that prints a program's recorded output, and leaves the files as the program did. told is
// what the program was asked. If it is asked something else now, that is a drift: all that agents and people say is
// compared by the outcome.
func (p *Player) program(ctx context.Context, row store.Thread, a agent.Program, t Take, req agent.Request,
	told string, known [2]gateway.Known) (agent.Agent, error) {
	if d, same := gateway.Compare(known[0].Text(told), known[1].Text(req.Prompt)); !same {
		p.note(req.Role, row.Steps+1, []gateway.Drift{d})
	}
	out, err := p.read(ctx, t.Detail.Transcript)
	if err != nil {
		return nil, err
	}
	stderr, err := p.read(ctx, t.Detail.Stderr)
	if err != nil {
		return nil, err
	}
	if err := p.leave(ctx, row, t, req.Desk.Artifacts); err != nil {
		return nil, err
	}
	one := Attempt{Role: req.Role, Visit: req.Visit, Try: req.Try, Output: out, Stderr: stderr, Exit: t.Detail.Exit,
		Plain: true, Model: t.Detail.Model, Events: []agent.Event{
			{Kind: agent.EventCommand, Text: a.String(), Phase: "started"},
			{Kind: agent.EventCommand, Text: a.String(), Phase: "completed", Exit: t.Detail.Exit},
		}}
	if one.Exit != nil {
		one.Status = a.Status(*one.Exit)
	}
	made, err := New(Recording{Attempts: []Attempt{one}})
	if err != nil {
		return nil, err
	}
	return said{made}, nil
}

// said is a program with recorded output.
type said struct{ *Agent }

// Run prints the recorded output. See [agent.Agent].
func (s said) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	res, err := s.Agent.Run(ctx, req, emit)
	res.Sandbox += viaReplay
	return res, err
}

// read reads a blob. The zero hash reads as nothing.
func (p *Player) read(ctx context.Context, h dag.Hash) ([]byte, error) {
	if h.IsZero() {
		return nil, nil
	}
	r, _, err := p.cfg.Store.Open(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("read what a program printed: %w", err)
	}
	defer r.Close()
	kept, err := io.ReadAll(r)
	data, _ := store.Unredacted(kept)
	return data, err
}

// leave changes the files of a thread's tree, and the artifacts, to what a recorded step left.
func (p *Player) leave(ctx context.Context, row store.Thread, t Take, artifacts string) error {
	if before, after := t.Detail.TreeBefore, t.Detail.TreeAfter; before != nil && after != nil {
		if err := p.cfg.Trees.Apply(ctx, row, &thread.Merge{From: *before, To: *after}); err != nil {
			return fmt.Errorf("leave the files as a program did: %w", err)
		}
	}
	content, err := p.cfg.Nodes.Content(ctx, t.State.Content)
	if err != nil || len(content.Artifacts) == 0 || artifacts == "" {
		return err
	}
	root, err := os.OpenRoot(artifacts)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, h := range content.Artifacts {
		a, err := p.cfg.Nodes.Artifact(ctx, h)
		if err != nil {
			return err
		}
		data, err := p.read(ctx, a.Blob)
		if err == nil {
			err = root.MkdirAll(path.Dir(a.Name), 0o700)
		}
		if err == nil {
			err = root.WriteFile(filepath.FromSlash(a.Name), data, 0o600)
		}
		if err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("leave artifact %q as a program did: %w", a.Name, err)
		}
	}
	return nil
}
