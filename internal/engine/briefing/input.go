package briefing

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

// addArtifact adds an artifact as a file in the directory dir.
func (in *input) addArtifact(dir string, h dag.Hash, a *thread.Artifact) {
	f := prompt.ExportedFile{Path: dir + "/" + prompt.FileName(h, a.Name), Artifact: h, Blob: a.Blob}
	in.files = append(in.files, f)
	in.line += fmt.Sprintf("\n  (the file %q, %s, %d bytes, is \"$PLAIT_CONTEXT/%s\", artifact:%s)", a.Name,
		a.MediaType, a.Size, f.Path, h)
}

// inputs returns what the plan gives the action of a thread: the results of the actions it depends on, evidence
// and artifacts. Large inputs are cut to their beginning. A manual fork of an action is given the same.
func (b *Briefer) inputs(ctx context.Context, at *record.Position) ([]input, error) {
	id, fork := at.Def.ActionID(), at.Caller
	if id == "" {
		return nil, nil
	}
	if at.Row.Path != nil {
		fork = at.Row.Path.Fork
	}
	plan, err := b.cfg.Record.Plan(ctx, fork)
	if err != nil {
		return nil, err
	}
	a, _ := plan.Action(id)
	var out []input
	if len(a.DependsOn) > 0 {
		rows, err := b.siblings(ctx, at.Row)
		if err != nil {
			return nil, err
		}
		for _, dep := range a.DependsOn {
			row, ok := rows[dep]
			if !ok {
				continue
			}
			in, err := b.resultOf(ctx, row)
			if err != nil {
				return nil, err
			}
			out = append(out, in)
		}
	}
	for _, name := range a.Inputs {
		in, err := b.input(ctx, at.Row.Task, name)
		if err != nil {
			return nil, fmt.Errorf("read input %s: %w", name, err)
		}
		out = append(out, in)
	}
	return out, nil
}

// siblings returns the newest threads of the plan's actions, for an action of the plan or a manual fork of
// one; none if the plan's thread is gone.
func (b *Briefer) siblings(ctx context.Context, row store.Thread) (map[string]store.Thread, error) {
	for row.Parent == nil {
		from, ok, err := thread.Origin(ctx, b.cfg.Store, row)
		if err != nil || !ok {
			return nil, err
		}
		row = from
	}
	rows, err := b.cfg.Store.Threads(ctx, store.ThreadFilter{Task: row.Task})
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
func (b *Briefer) resultOf(ctx context.Context, row store.Thread) (input, error) {
	end, steps, err := b.cfg.Record.PathEnd(ctx, row)
	if err != nil {
		return input{}, err
	}
	in := input{file: "input-" + row.Path.ID + ".json", data: end.Meta}
	in.line = fmt.Sprintf("%s, which this depends on, is %s: %s", row.Path.ID, row.Status, end.Text)
	err = b.eachLeft(ctx, steps, func(h dag.Hash, a *thread.Artifact) error {
		in.addArtifact("input-"+row.Path.ID, h, a)
		return nil
	})
	return in, err
}

// eachLeft calls do for each artifact that steps left, newest first, and only for the newest of each name.
func (b *Briefer) eachLeft(ctx context.Context, steps []thread.Step, do func(dag.Hash, *thread.Artifact) error) error {
	seen := map[string]bool{} // names
	for _, s := range slices.Backward(steps) {
		content, err := b.cfg.Record.Nodes().Content(ctx, s.State.Content)
		if err != nil {
			return err
		}
		for _, h := range content.Artifacts {
			a, err := b.cfg.Record.Nodes().Artifact(ctx, h)
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
func (b *Briefer) input(ctx context.Context, task, name string) (input, error) {
	kind, id, _ := strings.Cut(name, ":")
	if kind == "artifact" {
		h, err := dag.ParseHash(id)
		if err != nil {
			return input{}, err
		}
		a, err := b.cfg.Record.Nodes().Artifact(ctx, h)
		if err != nil {
			return input{}, err
		}
		in := input{line: name + ":"}
		in.addArtifact("input-"+id[:12], h, a)
		return in, nil
	}
	known, err := b.cfg.Evidence.Index(ctx, task)
	if err != nil {
		return input{}, err
	}
	added, ok := known.Get(id)
	if !ok {
		return input{line: name + ": it is not there any more"}, nil
	}
	return b.evidenceInput(ctx, added)
}

// evidenceInput returns an entry of evidence with the beginning of each source.
func (b *Briefer) evidenceInput(ctx context.Context, added event.EvidenceAdded) (input, error) {
	entry, err := b.cfg.Record.Nodes().Evidence(ctx, added.Hash)
	if err != nil {
		return input{}, err
	}
	in := input{file: "input-" + added.ID,
		line: fmt.Sprintf("evidence:%s: %s (%s). %s", added.ID, entry.Title, entry.Kind, entry.Summary)}
	if in.data, err = json.MarshalIndent(entry, "", "  "); err != nil {
		return in, err
	}
	in.data = append(in.data, '\n')
	for _, s := range entry.Sources {
		for _, blob := range []dag.Hash{s.Blob, s.StdoutRef, s.StderrRef, s.EventsRef} {
			if blob.IsZero() {
				continue
			}
			more, err := b.head(ctx, s, blob)
			if err != nil {
				return in, err
			}
			in.data = append(append(in.data, '\n'), more...)
		}
	}
	return in, nil
}

// head reads the kept beginning of a source.
func (b *Briefer) head(ctx context.Context, s thread.EvidenceSource, kept dag.Hash) ([]byte, error) {
	r, _, err := s.Open(ctx, b.cfg.Store, kept)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, maxInput))
}

// inputsText returns what the agent of an action is told about its inputs. An agent that inherits a conversation but
// cannot branch off its session is also given the existing evidence.
func (b *Briefer) inputsText(ctx context.Context, a Attempt, g *Given) (string, error) {
	var text strings.Builder
	for _, in := range g.inputs {
		in.describe(&text)
	}
	if a.Branches || record.Action(a.At.Row) == "" || a.At.Row.Kind == store.KindWorker {
		return text.String(), nil
	}
	evidence, err := b.evidenceInputs(ctx, a.At.Row.Task)
	if err != nil || len(evidence) == 0 {
		return text.String(), err
	}
	text.WriteString("\nThe conversation before comes without what its agents' tools said. This is proved so far:\n")
	for _, in := range evidence {
		in.describe(&text)
	}
	g.inputs = append(g.inputs, evidence...)
	return text.String(), nil
}

func (in input) describe(text *strings.Builder) {
	fmt.Fprintf(text, "- %s", in.line)
	if in.file != "" {
		fmt.Fprintf(text, "\n  (whole in %s of the directory that PLAIT_CONTEXT names)", in.file)
	}
	text.WriteByte('\n')
}

// evidenceInputs returns the newest evidence of a task, oldest first.
func (b *Briefer) evidenceInputs(ctx context.Context, task string) ([]input, error) {
	entries, err := b.cfg.Evidence.Newest(ctx, task, "")
	if err != nil {
		return nil, err
	}
	var out []input
	for _, added := range entries {
		in, err := b.evidenceInput(ctx, added)
		if err != nil {
			return nil, fmt.Errorf("read evidence:%s: %w", added.ID, err)
		}
		in.file, in.line = "evidence-"+added.ID, "evidence:"+added.ID+": "+added.Title
		out = append(out, in)
	}
	return out, nil
}
