package attempt

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// maxInput bounds what an action is given to read of one source, in bytes.
const maxInput = 1 << 20

// An input is what the plan gives an action: a file that its agent may read, and a line that describes it.
type input struct {
	file  string
	line  string
	data  []byte
	blob  dag.Hash // unless zero, the file holds the beginning of this blob instead of data
	files []prompt.ExportedFile
}

// has adds an artifact as a file in the directory dir.
func (in *input) has(dir string, h dag.Hash, a *thread.Artifact) {
	f := prompt.ExportedFile{Path: dir + "/" + prompt.FileName(h, a.Name), Artifact: h, Blob: a.Blob}
	in.files = append(in.files, f)
	in.line += fmt.Sprintf("\n  (the file %q, %s, %d bytes, is \"$PLAIT_CONTEXT/%s\", artifact:%s)", a.Name,
		a.MediaType, a.Size, f.Path, h)
}

// inputs returns what the plan gives the action of a thread: the results of the actions it depends on, evidence
// and artifacts. Large inputs are cut to their beginning. A manual fork of an action is given the same.
func (e *Runner) inputs(ctx context.Context, c *Thread) ([]input, error) {
	id, at := c.Def.ActionID(), c.Caller
	if id == "" {
		return nil, nil
	}
	if c.Row.Path != nil {
		at = c.Row.Path.Fork
	}
	plan, err := e.cfg.Record.Plan(ctx, at)
	if err != nil {
		return nil, err
	}
	a, _ := plan.Action(id)
	var out []input
	if len(a.DependsOn) > 0 {
		rows, err := e.siblings(ctx, c.Row)
		if err != nil {
			return nil, err
		}
		for _, dep := range a.DependsOn {
			row, ok := rows[dep]
			if !ok {
				continue
			}
			in, err := e.resultOf(ctx, row)
			if err != nil {
				return nil, err
			}
			out = append(out, in)
		}
	}
	for _, name := range a.Inputs {
		in, err := e.input(ctx, c.Row.Task, name)
		if err != nil {
			return nil, err
		}
		out = append(out, in)
	}
	return out, nil
}

// siblings returns the newest threads of the plan's actions, for an action of the plan or a manual fork of
// one; none if the plan's thread is gone.
func (e *Runner) siblings(ctx context.Context, row store.Thread) (map[string]store.Thread, error) {
	for row.Parent == nil {
		from, ok, err := thread.Origin(ctx, e.cfg.Store, row)
		if err != nil || !ok {
			return nil, err
		}
		row = from
	}
	rows, err := e.cfg.Store.Threads(ctx, store.ThreadFilter{Task: row.Task})
	if err != nil {
		return nil, err
	}
	newest := map[string]store.Thread{}
	for _, t := range rows {
		if id := record.Action(t); id != "" && t.Parent != nil && *t.Parent == *row.Parent &&
			(newest[id].ID == "" || t.Path.N > newest[id].Path.N) {
			newest[id] = t
		}
	}
	return newest, nil
}

// resultOf returns the result of an action, as an input for an action that depends on it.
func (e *Runner) resultOf(ctx context.Context, row store.Thread) (input, error) {
	end, steps, err := e.cfg.Record.PathEnd(ctx, row)
	if err != nil {
		return input{}, err
	}
	in := input{file: "input-" + row.Path.ID + ".json", data: end.Meta}
	in.line = fmt.Sprintf("%s, which this depends on, is %s: %s", row.Path.ID, row.Status, end.Text)
	err = e.eachLeft(ctx, steps, func(h dag.Hash, a *thread.Artifact) error {
		in.has("input-"+row.Path.ID, h, a)
		return nil
	})
	return in, err
}

// eachLeft calls do for each artifact that steps left, newest first, and only for the newest of each name.
func (e *Runner) eachLeft(ctx context.Context, steps []thread.Step, do func(dag.Hash, *thread.Artifact) error) error {
	seen := map[string]bool{} // names
	for _, s := range slices.Backward(steps) {
		content, err := e.cfg.Record.Nodes().Content(ctx, s.State.Content)
		if err != nil {
			return err
		}
		for _, h := range content.Artifacts {
			a, err := e.cfg.Record.Nodes().Artifact(ctx, h)
			if err != nil {
				return err
			}
			if seen[a.Name] {
				continue
			}
			seen[a.Name] = true
			if err := do(h, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// input reads one input of a plan.
func (e *Runner) input(ctx context.Context, task, name string) (input, error) {
	kind, id, _ := strings.Cut(name, ":")
	if kind == "artifact" {
		h, err := dag.ParseHash(id)
		if err != nil {
			return input{}, err
		}
		a, err := e.cfg.Record.Nodes().Artifact(ctx, h)
		if err != nil {
			return input{}, err
		}
		in := input{line: name + ":"}
		in.has("input-"+id[:12], h, a)
		return in, nil
	}
	known, err := e.evidence.Index(ctx, task)
	if err != nil {
		return input{}, err
	}
	ev, ok := known.Get(id)
	if !ok {
		return input{line: name + ": it is not there any more"}, nil
	}
	return e.proof(ctx, ev)
}

// proof returns an entry of evidence with the beginning of each source.
func (e *Runner) proof(ctx context.Context, ev event.EvidenceAdded) (input, error) {
	proof, err := e.cfg.Record.Nodes().Evidence(ctx, ev.Hash)
	if err != nil {
		return input{}, err
	}
	in := input{file: "input-" + ev.ID,
		line: fmt.Sprintf("evidence:%s: %s (%s). %s", ev.ID, proof.Title, proof.Kind, proof.Summary)}
	if in.data, err = json.MarshalIndent(proof, "", "  "); err != nil {
		return in, err
	}
	in.data = append(in.data, '\n')
	for _, s := range proof.Sources {
		for _, blob := range []dag.Hash{s.Blob, s.StdoutRef, s.StderrRef, s.EventsRef} {
			if blob.IsZero() {
				continue
			}
			more, err := e.head(ctx, s, blob)
			if err != nil {
				return in, err
			}
			in.data = append(append(in.data, '\n'), more...)
		}
	}
	return in, nil
}

// head reads the kept beginning of a source.
func (e *Runner) head(ctx context.Context, s thread.EvidenceSource, kept dag.Hash) ([]byte, error) {
	r, _, err := s.Open(ctx, e.cfg.Store, kept)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, maxInput))
}

// inputsText returns what the agent of an action is told about its inputs, which p keeps. An agent that
// inherits a conversation but cannot branch off its session is given the existing evidence.
func (e *Runner) inputsText(ctx context.Context, c *Thread, p *Prepared) (string, error) {
	var err error
	if p.given.inputs, err = e.inputs(ctx, c); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, in := range p.given.inputs {
		in.tell(&b)
	}
	if p.in.From != nil || record.Action(c.Row) == "" || c.Row.Kind == store.KindWorker {
		return b.String(), nil
	}
	proved, err := e.proved(ctx, c)
	if err != nil || len(proved) == 0 {
		return b.String(), err
	}
	b.WriteString("\nThe conversation before comes without what its agents' tools said. This is proved so far:\n")
	for _, in := range proved {
		in.tell(&b)
	}
	p.given.inputs = append(p.given.inputs, proved...)
	return b.String(), nil
}

func (in input) tell(b *strings.Builder) {
	fmt.Fprintf(b, "- %s", in.line)
	if in.file != "" {
		fmt.Fprintf(b, "\n  (whole in %s of the directory that PLAIT_CONTEXT names)", in.file)
	}
	b.WriteByte('\n')
}

// proved returns the newest evidence of a task, oldest first.
func (e *Runner) proved(ctx context.Context, c *Thread) ([]input, error) {
	proofs, err := e.evidence.Newest(ctx, c.Row.Task, "")
	if err != nil {
		return nil, err
	}
	var out []input
	for _, a := range proofs {
		in, err := e.proof(ctx, a)
		if err != nil {
			return nil, err
		}
		in.file, in.line = "evidence-"+a.ID, "evidence:"+a.ID+": "+a.Title
		out = append(out, in)
	}
	return out, nil
}
