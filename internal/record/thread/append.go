package thread

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A NewTask is what a root thread starts from. Row carries what the caller
// decides (id, workspace, tree, options, times); Begin fills in the rest.
type NewTask struct {
	Row       store.Thread
	Bundle    Bundle
	Prompt    string
	MaxRounds int // the limit in force; zero means none
}

// rounds returns a limit as stored in a start node: nil for no limit.
func rounds(most int) *int {
	if most <= 0 {
		return nil
	}
	return &most
}

// Begin returns the objects and the row of a new root thread. It is pending, and its head is its
// start.
func Begin(n NewTask) ([]store.Object, store.Thread, error) {
	row := n.Row
	fail := func(err error) ([]store.Object, store.Thread, error) {
		return nil, store.Thread{}, fmt.Errorf("begin thread %s: %w", row.ID, err)
	}
	bundle, err := NewNode(dag.TypeFlow, n.Bundle)
	if err != nil {
		return fail(err)
	}
	prompt, err := NewContent(n.Prompt, nil)
	if err != nil {
		return fail(err)
	}
	start, err := NewNode(dag.TypeStart, Start{
		Name: n.Bundle.Name, Hash: bundle.Hash, Prompt: prompt.Hash, MaxRounds: rounds(n.MaxRounds), Action: Named(""),
	})
	if err != nil {
		return fail(err)
	}
	row.Task, row.Root, row.Kind = row.ID, row.ID, store.KindRoot
	row.Bundle, row.Flow = bundle.Hash, n.Bundle.Name
	row.Start, row.Head = start.Hash, start.Hash
	row.Status, row.UpdatedAt = store.Pending, row.CreatedAt
	return []store.Object{bundle, prompt, start}, row, nil
}

// A Tip describes the end of a chain, as needed to append to it.
type Tip struct {
	Head      dag.Hash
	Start     dag.Hash
	Ancestors []dag.Hash // of Head
	IsStart   bool
}

// Tip reads the end of the chain at head.
func (r *Reader) Tip(ctx context.Context, head dag.Hash) (Tip, error) {
	s, err := r.At(ctx, head)
	if err != nil {
		return Tip{}, err
	}
	if s.State == nil {
		return Tip{Head: head, Start: head, IsStart: true}, nil
	}
	return Tip{Head: head, Start: s.State.Start, Ancestors: s.State.Ancestors}, nil
}

// next returns the ancestors of a step that follows the tip.
func (t Tip) next() []dag.Hash {
	if t.IsStart {
		return []dag.Hash{}
	}
	a := make([]dag.Hash, 0, Window)
	a = append(a, t.Head)
	return append(a, t.Ancestors[:min(len(t.Ancestors), Window-1)]...)
}

// A Draft is a step to be appended.
type Draft struct {
	Role        string
	Meta        json.RawMessage // canonical JSON object
	Text        string
	Artifacts   []dag.Hash
	Compact     bool // the text replaces everything before it in prompts
	ChildThread dag.Hash
	Fork        dag.Hash   // of a join: the step at which its paths began
	Paths       []PathHead // of a join
	Detail      *Detail    // nil: none
	At          int64      // Unix ms
}

// A Change is an appended step: what a batch has to write.
type Change struct {
	Objects []store.Object
	Row     store.Thread
	Tip     Tip
	Step    Step
	Content Content // of the step
}

// PathOf returns the id of the path that a thread's steps belong to, "" for a main line. A thread
// spawned by a plan has its own main line.
func PathOf(row store.Thread) string {
	if row.Path == nil || row.Kind == store.KindWorker {
		return ""
	}
	return row.Path.ID
}

// Append returns the change that adds d to the thread of row, after tip. It commits nothing.
func Append(row store.Thread, tip Tip, d Draft) (Change, error) {
	fail := func(err error) (Change, error) {
		return Change{}, fmt.Errorf("append %s to thread %s: %w", d.Role, row.ID, err)
	}
	if canon, err := dag.Canonical(d.Meta); err != nil || canon[0] != '{' || !bytes.Equal(canon, d.Meta) {
		return fail(errors.New("meta is not an object in canonical form"))
	}
	content, err := NewContent(d.Text, d.Artifacts)
	if err != nil {
		return fail(err)
	}
	s := &State{
		Role: d.Role, Meta: d.Meta, Start: tip.Start, Content: content.Hash, Ancestors: tip.next(),
		Timestamp: d.At, ChildThread: d.ChildThread, Fork: d.Fork, Paths: d.Paths, Path: Named(PathOf(row)),
	}
	objects := make([]store.Object, 0, 3)
	objects = append(objects, content)
	if d.Compact {
		s.Compact = content.Hash
	}
	if d.Detail != nil {
		detail, err := NewNode(dag.TypeDetail, d.Detail)
		if err != nil {
			return fail(err)
		}
		s.Detail = detail.Hash
		objects = append(objects, detail)
	}
	state, err := NewNode(dag.TypeState, s)
	if err != nil {
		return fail(err)
	}
	row.Head, row.UpdatedAt = state.Hash, d.At
	row.Steps++
	return Change{
		Objects: append(objects, state), Row: row,
		Tip:  Tip{Head: state.Hash, Start: tip.Start, Ancestors: s.Ancestors},
		Step: Step{state.Hash, s}, Content: Content{d.Text, d.Artifacts},
	}, nil
}

// Return codes of __end__. Any other code means that the thread failed.
const (
	CodeDone      = 0
	CodeCancelled = 130
)

// EndFailed begins the summary of a spawned action that ran out of attempts. The kind of the last failure follows.
const EndFailed = "failed: "

// EndMeta returns the meta of an __end__ step.
func EndMeta(code int, summary string) json.RawMessage {
	b := fmt.Appendf(nil, `{"returnCode":%d,"summary":`, code)
	b = dag.AppendString(b, summary)
	return append(b, '}')
}

// End returns the change that ends the thread of row: its last step, and the status that
// corresponds to code.
func End(row store.Thread, tip Tip, code int, summary string, at int64) (Change, error) {
	c, err := Append(row, tip, Draft{Role: RoleEnd, Meta: EndMeta(code, summary), Text: summary, At: at})
	if err != nil {
		return Change{}, err
	}
	c.Row.Status, c.Row.EndedAt, c.Row.InFlight, c.Row.Reason = EndStatus(code), at, "", nil
	switch c.Row.Status {
	case store.Cancelled:
		c.Row.Reason = &store.Reason{Kind: store.ReasonCancelled, Message: store.Text(summary)}
	case store.Failed:
		c.Row.Reason = &store.Reason{Kind: store.ReasonFailed, Failure: store.FailureSaid, Message: store.Text(summary)}
	}
	return c, nil
}

// EndStatus returns the status of a thread that ended with code.
func EndStatus(code int) store.Status {
	switch code {
	case CodeDone:
		return store.Completed
	case CodeCancelled:
		return store.Cancelled
	}
	return store.Failed
}

// InputMeta returns the meta of an __input__ step: where the text came from
// (resume, fork, gate, notes, chat), and the gate it answers or "". A comment has [CommentMeta].
func InputMeta(source, gate string) json.RawMessage {
	b := append([]byte(`{"gate":`), "null"...)
	if gate != "" {
		b = dag.AppendString(b[:len(b)-len("null")], gate)
	}
	b = append(b, `,"source":`...)
	b = dag.AppendString(b, source)
	return append(b, '}')
}

// Fork returns the row of a manual fork: a new root thread whose head is the step at, which is
// number steps after the start. The fork shares every step with the thread it came from, so no
// objects are written.
func Fork(row store.Thread, id string, at Step, number int, now int64) store.Thread {
	return store.Thread{
		ID: id, Task: id, Root: id, Kind: store.KindRoot, Bundle: row.Bundle, Flow: row.Flow,
		Start: row.Start, Head: at.Hash, Status: store.Pending,
		ForkedFrom: &store.ForkedFrom{Thread: row.ID, Step: at.Hash},
		Tree:       row.Tree, Workspace: row.Workspace, Files: row.Files, Host: row.Host, Options: row.Options,
		Steps: number, CreatedAt: now, UpdatedAt: now,
	}
}
