package thread

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// Path returns the row of the thread of one path of a fork, pending at the parent's head. The
// chain is shared: a path writes no start. The rows of two calls for the same path differ only in
// their times.
func Path(parent store.Thread, forked int64, p store.Path, now int64) store.Thread {
	p.Fork = parent.Head
	row := below(parent, store.KindPath, DerivedID(forked, parent.ID, parent.Head, p.ID, p.N), now)
	row.Path = &p
	return row
}

// below returns the row of a new thread that branches off parent at its head.
func below(parent store.Thread, kind store.ThreadKind, id string, now int64) store.Thread {
	row := parent
	row.ID, row.Short, row.Kind, row.Status = id, "", kind, store.Pending
	row.Parent, row.Path = &store.Parent{Thread: parent.ID, From: parent.Head}, nil
	row.ForkedFrom, row.Decision, row.Reason, row.Intent, row.InFlight = nil, nil, nil, "", ""
	row.CreatedAt, row.UpdatedAt, row.EndedAt = now, now, 0
	return row
}

// PathKey returns a globally unique name of a path.
func PathKey(row store.Thread, fork, path string) string {
	return row.Bundle.String() + "/" + row.Flow + "/" + fork + "/" + path
}

// A Child is a thread of another flow that a thread starts at its head.
type Child struct {
	Parent    store.Thread
	Since     int64  // when the parent's head was made, Unix ms
	Role      string // the calling role
	N         int    // counts the calls of this role from the same head, from 1
	Flow      string
	Depth     int // of the child
	Prompt    string
	MaxRounds int // the limit for the child, zero: none
	Now       int64
}

// Call returns the objects and the row of a child thread. The parentState of its start is the
// parent's head.
func Call(c Child) ([]store.Object, store.Thread, error) { return c.begin("") }

// Spawn returns the objects and the row of a child thread that carries out an action of the plan
// at the parent's head. The row is like that of [Call], but is also a path of the plan's join.
// Role and number are taken from p.
func Spawn(c Child, p store.Path) ([]store.Object, store.Thread, error) {
	c.Role, c.N = p.ID, p.N
	objects, row, err := c.begin(p.ID)
	p.Fork = c.Parent.Head
	row.Kind, row.Path = store.KindWorker, &p
	return objects, row, err
}

func (c Child) begin(action string) ([]store.Object, store.Thread, error) {
	fail := func(err error) ([]store.Object, store.Thread, error) {
		return nil, store.Thread{}, fmt.Errorf("call %s from thread %s: %w", c.Flow, c.Parent.ID, err)
	}
	content, err := NewContent(c.Prompt, nil)
	if err != nil {
		return fail(err)
	}
	start, err := NewNode(dag.TypeStart, Start{
		Name: c.Flow, Hash: c.Parent.Bundle, Depth: c.Depth, ParentState: c.Parent.Head, Prompt: content.Hash,
		MaxRounds: rounds(c.MaxRounds), Action: Named(action),
	})
	if err != nil {
		return fail(err)
	}
	row := below(c.Parent, store.KindCall, DerivedID(c.Since, c.Parent.ID, c.Parent.Head, c.Role, c.N), c.Now)
	row.Flow, row.Start, row.Head, row.Steps = c.Flow, start.Hash, start.Hash, 0
	return []store.Object{content, start}, row, nil
}

// A PathEnd is how a path ended.
type PathEnd struct {
	Row  store.Thread
	Meta json.RawMessage // of its last routed step, nil if it has none of its own
	Text string
}

// failure returns why the path failed, or nil. Rows of older versions lack the kind.
func (p PathEnd) failure() *PathFailure {
	if p.Row.Status != store.Failed {
		return nil
	}
	f := &PathFailure{Path: p.Row.Path.ID, Kind: store.FailureSaid}
	if why := p.Row.Reason; why != nil {
		f.Kind, f.Message = cmp.Or(why.Failure, f.Kind), why.Message
	}
	return f
}

// A JoinDraft is the step of a join.
type JoinDraft struct {
	Node      string
	Outcome   string // its $status
	DecidedBy string // the path whose end decided, or ""
	Paths     []PathEnd
	Since     int64       // when the paths were made, Unix ms
	At        int64       // Unix ms
	Usage     store.Usage // of the paths other than the one that the step follows
	Merge     *Merge      // of the files that the paths changed, or nil
	Files     dag.Hash    // tree node of the files after the step, or zero
	Approvals Answers
	// Older builds the step as versions before schema 4 did: without the kinds of failures.
	Older bool
	// Pointing builds the step as versions before schema 9 did: instead of the text of the path
	// that it follows, it points to it.
	Pointing bool
	instead  string // what Pointing has in place of pointer, or ""
}

// Join returns the change that joins the paths of a fork. row's head is the fork point; after is
// the step to follow (design §3: the head of the main path, or of the path that decided, or the
// fork point), and steps is its number. Walking back from the join reads that conversation, each
// step once.
func Join(row store.Thread, after Tip, steps int, d JoinDraft) (Change, error) {
	fork := row.Head
	paths := make([]PathHead, len(d.Paths))
	detail := NewDetail(d.Since, d.At)
	detail.Usage, detail.Merge, detail.Files, detail.Approvals = d.Usage, d.Merge, d.Files, d.Approvals
	for i, p := range d.Paths {
		paths[i] = PathHead{ID: p.Row.Path.ID, Thread: p.Row.ID, Head: p.Row.Head, Status: p.Row.Status}
		if f := p.failure(); f != nil && !d.Older {
			detail.Failures = append(detail.Failures, *f)
		}
	}
	meta, err := joinMeta(d)
	if err != nil {
		return Change{}, fmt.Errorf("join %s in thread %s: %w", d.Node, row.ID, err)
	}
	row.Steps = steps
	if m := d.Merge; m != nil && m.From != "" {
		detail.TreeBefore, detail.TreeAfter = &m.From, &m.To
	}
	return Append(row, after, Draft{
		Role: d.Node, Meta: meta, Text: d.text(after.Head, fork), Fork: fork, Paths: paths, At: d.At,
		Detail: detail,
	})
}

// joinMeta returns {$status, decidedBy, paths: {id: {status, meta, failure}}}.
func joinMeta(d JoinDraft) (json.RawMessage, error) {
	results := make(map[string]map[string]any, len(d.Paths))
	for _, p := range d.Paths {
		r := map[string]any{"status": p.Row.Status, "meta": p.Meta}
		if p.Row.Status == store.Cancelled || len(p.Meta) == 0 {
			r["meta"] = nil
		}
		if !d.Older {
			r["failure"] = nil
			if f := p.failure(); f != nil {
				r["failure"] = f.Kind
			}
		}
		results[p.Row.Path.ID] = r
	}
	var by *string
	if d.DecidedBy != "" {
		by = &d.DecidedBy
	}
	return dag.Marshal(map[string]any{"$status": d.Outcome, "decidedBy": by, "paths": results})
}

// Failures reads the kinds of failure from the meta of a join, by path. older reports whether the
// join was written before they were recorded.
func Failures(meta json.RawMessage) (kinds map[string]store.FailureKind, older bool, err error) {
	var m struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(meta, &m); err != nil {
		return nil, false, fmt.Errorf("read meta of join: %w", err)
	}
	kinds, older = make(map[string]store.FailureKind), true
	for id, p := range m.Paths {
		raw, said := p["failure"]
		older = older && !said
		var kind store.FailureKind
		if said {
			if err := json.Unmarshal(raw, &kind); err != nil {
				return nil, false, fmt.Errorf("read meta of join: path %s: %w", id, err)
			}
		}
		kinds[id] = kind
	}
	return kinds, older, nil
}
