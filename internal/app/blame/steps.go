package blame

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/atomicfile"
)

// steps reads the steps of the tasks that may have worked in the repository.
func (r *Reader) steps(ctx context.Context) ([]*step, error) {
	rows, err := r.View.Store.Threads(ctx, store.ThreadFilter{})
	if err != nil {
		return nil, err
	}
	var steps []*step
	known := map[dag.Hash]*step{} // nil for the start of a conversation
	here := map[string]bool{}     // by workspace
	for _, row := range rows {
		if _, ok := here[row.Workspace]; !ok {
			here[row.Workspace] = r.mayBeHere(ctx, row.Workspace)
		}
		if !here[row.Workspace] {
			continue
		}
		if steps, err = r.conversation(ctx, row, steps, known); err != nil {
			return nil, err
		}
	}
	return steps, nil
}

// mayBeHere reports whether tasks of a workspace may have worked in the repository. A directory that does not exist was
// perhaps one of another machine.
func (r *Reader) mayBeHere(ctx context.Context, workspace string) bool {
	repo, err := git.Open(ctx, workspace)
	if err != nil {
		return !errors.Is(err, git.ErrNone) && !errors.Is(err, git.ErrRefused)
	}
	return repo.Shares(r.Repo)
}

// conversation adds the steps of a thread that are not known.
func (r *Reader) conversation(ctx context.Context, row store.Thread, steps []*step, known map[dag.Hash]*step) (
	[]*step, error) {
	var own []thread.Step
	before := (*step)(nil)
	for s, err := range r.View.Nodes.Walk(ctx, row.Head) {
		if err != nil {
			return nil, err
		}
		if before = known[s.Hash]; before != nil {
			break
		}
		own = append(own, s)
	}
	if before == nil && row.Parent != nil { // a called or spawned thread has a conversation of its own
		before = known[row.Parent.From]
	}
	for i := len(own) - 1; i >= 0; i-- {
		s := own[i]
		d, err := r.View.Nodes.Detail(ctx, s.State.Detail)
		if err != nil {
			return nil, err
		}
		if d == nil {
			d = &thread.Detail{}
		}
		before = &step{hash: s.Hash, row: row, n: row.Steps - i, role: s.State.Role, detail: d, previous: before}
		known[s.Hash], steps = before, append(steps, before)
	}
	return steps, nil
}

// withChanges returns the steps that changed files, with what they changed. It leaves out those whose trees the
// repository does not have, and returns their number.
func (r *Reader) withChanges(ctx context.Context, made *git.Annotator, all []*step) (have []*step, missing int, err error) {
	var steps []*step
	for _, s := range all {
		if d := s.detail; d.TreeBefore != nil && d.TreeAfter != nil && *d.TreeBefore != *d.TreeAfter {
			steps = append(steps, s)
		}
	}
	var trees []string
	for _, s := range steps {
		trees = append(trees, *s.detail.TreeBefore, *s.detail.TreeAfter)
	}
	ids, err := made.Objects(ctx, trees)
	if err != nil {
		return nil, 0, err
	}
	var pairs [][2]string
	for i, s := range steps {
		if pair := [2]string(ids[2*i:]); pair[0] != "" && pair[1] != "" {
			have, pairs = append(have, s), append(pairs, pair)
		}
	}
	changes, err := r.changes(ctx, made, pairs)
	if err != nil {
		return nil, 0, err
	}
	for i, s := range have {
		s.changes = changes[pairs[i]]
	}
	return have, len(steps) - len(have), nil
}

// changes returns what differs between pairs of trees: what the index says, and of others what Git does, which is added
// to it.
func (r *Reader) changes(ctx context.Context, made *git.Annotator, pairs [][2]string) (
	map[[2]string][]git.FileChange, error) {
	var kept []byte
	if r.Index != "" {
		kept, _ = os.ReadFile(r.Index) // if it cannot be read it is made again
	}
	known, err := git.ReadChanges(kept)
	if err != nil {
		kept, known = nil, map[[2]string][]git.FileChange{}
	}
	pairs = slices.DeleteFunc(slices.Clone(pairs), func(pair [2]string) bool {
		_, ok := known[pair]
		return ok
	})
	if len(pairs) == 0 {
		return known, nil
	}
	printed, err := made.Changes(ctx, pairs)
	if err != nil {
		return nil, err
	}
	more, err := git.ReadChanges(printed)
	if err != nil {
		return nil, err
	}
	maps.Copy(known, more)
	if r.Index != "" {
		atomicfile.Replace(r.Index, 0o600, func(f *os.File) error { // if it fails, the next one compares them again
			_, err := f.Write(append(kept, printed...))
			return errors.Join(err, f.Sync())
		})
	}
	return known, nil
}

// A Step is one that wrote lines.
type Step struct {
	Name     string   `json:"name"` // as people type it: q23z/2
	Hash     dag.Hash `json:"hash"`
	Task     string   `json:"task"` // id
	Role     string   `json:"role"`
	Agent    string   `json:"agent"`
	Model    string   `json:"model"`
	At       int64    `json:"at"`    // when it ended, Unix ms
	Title    string   `json:"title"` // of the task: the first words of its prompt
	Prompt   dag.Hash `json:"prompt"`
	By       string   `json:"by"`       // the person who made it, "" for an agent
	Approved []string `json:"approved"` // by whom
	Ran      []Run    `json:"ran"`      // commands that ran on exactly these files
}

// A Run is a command that an agent ran.
type Run struct {
	Step    string `json:"step"`
	Command string `json:"command"`
	Exit    int    `json:"exit"`
}

// describe reads what is shown of a step. all are the steps of the record.
func (r *Reader) describe(ctx context.Context, s *step, all []*step) (*Step, error) {
	d, names := s.detail, r.View.Names()
	nameOf := func(s *step) string { return fmt.Sprintf("%s/%d", names.Of(ctx, s.row), s.n) }
	out := &Step{Name: nameOf(s), Hash: s.hash, Task: s.row.Task, Role: s.role, Agent: d.Agent, Model: d.Model,
		At: d.EndedAt, Prompt: d.Prompt, Approved: []string{}, Ran: []Run{}}
	if d.By != nil {
		out.By = *d.By
	}
	root, err := r.View.Store.Thread(ctx, s.row.Task)
	if err != nil {
		return nil, err
	}
	if out.Title, err = r.View.Title(ctx, root); err != nil {
		return nil, err
	}
	if len(d.Approvals.Hashes) > 0 {
		gates, err := r.View.Store.Gates(ctx, store.GateFilter{Task: s.row.Task})
		if err != nil {
			return nil, err
		}
		for _, g := range gates {
			if g.State == store.GateApproved && slices.Contains(d.Approvals.Hashes, thread.ApprovalHash(g)) {
				out.Approved = append(out.Approved, g.By)
			}
		}
	}
	for _, other := range all {
		if other.row.Task != s.row.Task || other.detail.RanOn() != *d.TreeAfter {
			continue
		}
		for _, h := range other.detail.Evidence {
			e, err := r.View.Nodes.Evidence(ctx, h)
			if err != nil {
				return nil, err
			}
			for _, src := range e.Sources {
				if len(src.Command) > 0 && src.ExitCode != nil && !src.Unfinished() {
					out.Ran = append(out.Ran, Run{nameOf(other), strings.Join(src.Command, " "), *src.ExitCode})
				}
			}
		}
	}
	return out, nil
}
