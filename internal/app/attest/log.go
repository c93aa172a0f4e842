package attest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/merkle"
	"github.com/plait-run/plait/internal/record/store"
)

// Entries are entries of one task in the log of a record, and the proof that the log has them.
type Entries struct {
	Entries []Entry    `json:"entries"` // by position
	Proof   []dag.Hash `json:"proof"`   // see merkle.Prove
	Size    int64      `json:"size"`    // of the log

	said said // by all entries of the task, once they are read from its log
}

// said is what entries say of a task that its record does not.
type said struct {
	by       string              // who asked for it
	versions map[dag.Hash]string // of the programs of agents, by the step that they made
}

// hear adds what an entry says.
func (s *said) hear(x Entry) {
	switch p := event.Read(x.event()).(type) {
	case event.TaskCreated:
		s.by = p.By
	case event.AttemptCompleted:
		if s.versions == nil {
			s.versions = map[dag.Hash]string{}
		}
		s.versions[p.Step] = p.Version
	}
}

// tell adds that to a change.
func (s said) tell(c *Change) {
	c.Task.By = s.by
	for _, step := range c.Steps {
		if step.Agent != nil {
			step.Agent.Version = s.versions[step.Node]
		}
	}
}

// An Entry has what is hashed of an event, see docs/format.md, and its salt. Payload and proof are the bytes that were
// filed, as texts.
type Entry struct {
	Attempt  string `json:"attempt,omitempty"`
	Instance string `json:"instance,omitempty"`
	Payload  string `json:"payload,omitempty"`
	Pos      int64  `json:"pos"`
	Proof    string `json:"proof,omitempty"`
	Salt     string `json:"salt"` // 64 hex digits
	Seq      int64  `json:"seq"`
	Task     string `json:"task"`
	Thread   string `json:"thread"`
	TS       int64  `json:"ts"`
	Type     string `json:"type"`
}

func entryOf(ev *store.Event, secret store.Secret) Entry {
	salt := secret.Salt(ev.Pos)
	return Entry{Attempt: ev.Attempt, Instance: ev.Instance, Payload: string(ev.Payload), Pos: ev.Pos,
		Proof: string(ev.Proof), Salt: hex.EncodeToString(salt[:]), Seq: ev.Seq, Task: ev.Task, Thread: ev.Thread,
		TS: ev.TS, Type: ev.Type}
}

// event returns the event that e is of.
func (e Entry) event() store.Event {
	return store.Event{Pos: e.Pos, Seq: e.Seq, TS: e.TS, Type: e.Type, Task: e.Task, Thread: e.Thread,
		Instance: e.Instance, Attempt: e.Attempt, Payload: json.RawMessage(e.Payload), Proof: json.RawMessage(e.Proof)}
}

// leaf returns the leaf of e in the log.
func (e Entry) leaf() (dag.Hash, error) {
	salt, err := hex.DecodeString(e.Salt)
	if err != nil || len(salt) != dag.Size || hex.EncodeToString(salt) != e.Salt {
		return dag.Hash{}, refused("entry %d: %q is no salt", e.Pos, e.Salt)
	}
	ev := e.event()
	return merkle.Leaf(salt, ev.Entry()), nil
}

// ended are the types of the entries that end a task.
func ended() []string {
	var all []string
	for _, s := range []store.Status{store.Completed, store.Failed, store.Cancelled} {
		all = append(all, event.Type(event.TaskEnded{State: event.TaskState(s)}))
	}
	return all
}

// core reports whether an entry is in a bundle without a record: how the task began and ended, and what people
// answered.
func core(e Entry) bool {
	types := append(ended(), event.Type(event.TaskCreated{}))
	for _, s := range []store.GateState{store.GateApproved, store.GateRejected, store.GateAnswered, store.GateExpired} {
		types = append(types, event.Type(event.GateChanged{Change: event.Change(s)}))
	}
	return slices.Contains(types, e.Type) || e.Type == event.Type(event.ThreadEnded{}) && e.Thread == e.Task
}

// entriesPage is how many entries are read at a time.
const entriesPage = 1000

// ReadEntries returns the entries of a task up to its end, in the log as it was at head, and how many the task has until
// then. A task that has not ended has all its entries until then. With all unset only its core is in them. Entries that
// were redacted are left out: their bytes are gone. The error matches store.ErrCorrupt if the log is not that of head.
func ReadEntries(ctx context.Context, s store.Journal, task string, head history.Checkpoint, all bool) (Entries, int64,
	error) {
	e, count, err := readEntries(ctx, s, task, head, all)
	if err != nil {
		return e, 0, fmt.Errorf("read log of task %s: %w", task, err)
	}
	return e, count, nil
}

func readEntries(ctx context.Context, s store.Journal, task string, head history.Checkpoint, all bool) (e Entries,
	count int64, err error) {
	e = Entries{Entries: []Entry{}, Size: head.Size}
	var leaves []dag.Hash
	var tree merkle.Tree
	end := 0
	for int64(len(leaves)) < head.Size {
		page, err := s.Entries(ctx, int64(len(leaves)), min(entriesPage, int(head.Size)-len(leaves)))
		if err != nil {
			return e, 0, err
		}
		if len(page) == 0 {
			return e, 0, fmt.Errorf("it ends at %d, before %d: %w", len(leaves), head.Size, store.ErrCorrupt)
		}
		for _, l := range page {
			leaf := l.Hash()
			leaves = append(leaves, leaf)
			tree.Append(leaf)
			if l.Event == nil || l.Event.Task != task || !l.Leaf.IsZero() {
				continue
			}
			e.Entries = append(e.Entries, entryOf(l.Event, l.Secret))
			if slices.Contains(ended(), l.Event.Type) {
				end, count = len(e.Entries), l.Event.Seq
			}
		}
	}
	switch {
	case tree.Root() != head.Root:
		return e, 0, fmt.Errorf("its root is not the one that was signed: %w", store.ErrCorrupt)
	case len(e.Entries) == 0:
		return e, 0, fmt.Errorf("it has no entry: %w", store.ErrNotFound)
	case end == 0:
		end, count = len(e.Entries), e.Entries[len(e.Entries)-1].Seq
	}
	e.Entries = e.Entries[:end]
	for _, x := range e.Entries {
		e.said.hear(x)
	}
	if !all {
		e.Entries = slices.DeleteFunc(e.Entries, func(x Entry) bool { return !core(x) && x.Seq != count })
	}
	at := make([]int64, len(e.Entries))
	for i, x := range e.Entries {
		at[i] = x.Pos - 1
	}
	e.Proof = merkle.Prove(leaves, at)
	return e, count, nil
}

// maxEntries is how many bytes the entries of a bundle have at most: some 80,000 entries.
const maxEntries = 64 << 20

// ParseEntries reads the entries of a bundle.
func ParseEntries(data []byte) (*Entries, error) {
	e := new(Entries)
	if err := strictly("entries", data, maxEntries, e); err != nil {
		return nil, err
	}
	return e, nil
}

// Check checks that the log with a head has the entries, that they are those of the task of a change, that the last of
// them has the number that the change says and, if the task has ended, says so, and that what people answered, who asked
// and the versions of agents are as they say. It returns how many entries the task has that are not there.
func (e *Entries) Check(head history.Checkpoint, c Change) (missing int64, err error) {
	if e.Size != head.Size || len(e.Entries) == 0 {
		return 0, refused("entries: %d of a log of %d, the checkpoint is of %d", len(e.Entries), e.Size, head.Size)
	}
	at, leaves := make([]int64, len(e.Entries)), make([]dag.Hash, len(e.Entries))
	for i, x := range e.Entries {
		switch {
		case x.Task != c.Task.ID:
			return 0, refused("entry %d: it is of task %q", x.Pos, x.Task)
		case i > 0 && x.Seq <= e.Entries[i-1].Seq:
			return 0, refused("entry %d: its number %d is not after that of the one before", x.Pos, x.Seq)
		}
		at[i] = x.Pos - 1
		if leaves[i], err = x.leaf(); err != nil {
			return 0, err
		}
	}
	root, err := merkle.Proven(e.Size, at, leaves, e.Proof)
	switch {
	case err != nil:
		return 0, refused("entries: %v", err)
	case root != head.Root:
		return 0, refused("entries: the log of the checkpoint does not have them")
	}
	last := e.Entries[len(e.Entries)-1]
	want := last.Type
	if c.ended() || slices.Contains(ended(), last.Type) {
		want = event.Type(event.TaskEnded{State: event.TaskState(c.Task.Status)})
	}
	if last.Type != want || last.Seq != c.Log.Entries {
		return 0, refused("entries: the last one is %s, number %d; the statement says %s, number %d", last.Type, last.Seq,
			want, c.Log.Entries)
	}
	missing = last.Seq - int64(len(e.Entries))
	if err := e.checkRows(c); err != nil {
		return missing, err
	}
	return missing, e.checkSaid(c, missing)
}

// checkSaid checks who asked for the task and which versions of agents made its steps. A version whose entry is among the
// missing ones cannot be checked.
func (e *Entries) checkSaid(c Change, missing int64) error {
	var s said
	for _, x := range e.Entries {
		s.hear(x)
	}
	if c.Task.By != "" && c.Task.By != s.by {
		return refused("entries: none says that %q asked for the task", c.Task.By)
	}
	for _, step := range c.Steps {
		if step.Agent == nil || step.Agent.Version == "" {
			continue
		}
		if is, known := s.versions[step.Node]; is != step.Agent.Version && (known || missing == 0) {
			return refused("entries: none says that version %q of %s made step %s", step.Agent.Version, step.Agent.Name,
				step.Node.Short())
		}
	}
	return nil
}

// ended reports whether the task had ended.
func (c Change) ended() bool { return store.Thread{Status: c.Task.Status}.Ended() }

// maxBy is how many bytes of a name an entry has.
const maxBy = 256

// checkRows checks that the head of the task and each answer of a person is what an entry says.
func (e *Entries) checkRows(c Change) error {
	headed := !c.ended()
	answered := map[string]event.GateChanged{}
	for _, x := range e.Entries {
		switch p := event.Read(x.event()).(type) {
		case event.ThreadEnded:
			headed = headed || x.Thread == c.Task.ID && p.Head == c.Task.Head
		case event.GateChanged:
			answered[p.Gate+" "+string(p.Change)] = p
		}
	}
	if !headed {
		return refused("entries: none says that the task ended at %s", c.Task.Head.Short())
	}
	for _, a := range c.Approvals {
		is, ok := answered[a.Gate+" "+string(a.Verdict)]
		switch {
		case !ok || is.By != event.Clip(a.By, maxBy) || is.Via != a.Via:
			return refused("entries: none says that %q answered %s with %s, via %s", a.By, a.Gate, a.Verdict, a.Via)
		case !is.Edited.IsZero() && is.Edited != a.Digest:
			return refused("entries: what %q approved for %s is another action", a.By, a.Gate)
		}
	}
	return nil
}
