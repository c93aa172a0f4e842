package view

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"syscall"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view/advice"
)

// A GateFilter selects gates.
type GateFilter struct {
	All   bool            // in every workspace
	Task  string          // only of this task, in any workspace; "" for any
	State store.GateState // only in this state; "" for any
}

// Gates lists gates, oldest first. Overdue ones expire first; in a read-only store they are
// listed as they are.
func (b *Reader) Gates(ctx context.Context, f GateFilter) ([]store.Gate, error) {
	by := store.GateFilter{Task: f.Task, State: f.State}
	found, err := b.gates().Gates(ctx, by)
	if errors.Is(err, syscall.EROFS) {
		found, err = b.Store.Gates(ctx, by)
	}
	if err != nil {
		return nil, err
	}
	here := map[string]bool{} // by task
	out := []store.Gate{}
	for _, g := range found {
		in, known := here[g.Task]
		if !known && !f.All && f.Task == "" {
			row, err := b.Store.Thread(ctx, g.Task)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
			in = err == nil && b.here(row)
			here[g.Task] = in
		}
		if f.All || f.Task != "" || in {
			out = append(out, GateRow(g))
		}
	}
	return out, nil
}

// Gate reads one gate by its full id, as Gates does.
func (b *Reader) Gate(ctx context.Context, id string) (store.Gate, error) {
	g, err := b.gates().Gate(ctx, id)
	if errors.Is(err, syscall.EROFS) {
		g, err = b.Store.Gate(ctx, id)
	}
	return GateRow(g), err
}

func (b *Reader) gates() *gate.Service {
	return gate.New(gate.Config{Store: b.Store, ReadOnly: b.ReadOnly})
}

// GateRow returns g for JSON, with empty lists instead of null.
func GateRow(g store.Gate) store.Gate {
	g.Options = orEmpty(g.Options)
	return g
}

// orEmpty returns an empty list for nil.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// GateDiff returns the diff of a gate, or "".
func (b *Reader) GateDiff(ctx context.Context, g store.Gate) (string, error) {
	if g.Diff.IsZero() {
		return "", nil
	}
	o, err := b.Store.Get(ctx, g.Diff)
	if err != nil {
		return "", fmt.Errorf("read the diff of gate %s: %w", g.ID, err)
	}
	diff, _ := store.Unredacted(o.Data)
	return string(diff), nil
}

// Redacted reports whether a text was redacted in a gate: then its digests are of what it was.
func (b *Reader) Redacted(ctx context.Context, g store.Gate) (bool, error) {
	events, err := b.Store.Events(ctx, 0, store.EventFilter{Task: g.Task, Types: event.Types(event.TaskRedacted{})})
	if err != nil {
		return false, fmt.Errorf("read what was redacted in gate %s: %w", g.ID, err)
	}
	return slices.ContainsFunc(events, func(e store.Event) bool {
		p, _ := event.Read(e).(event.TaskRedacted)
		_, had := p.Gates[g.ID]
		return had
	}), nil
}

// Asker returns who asks: role and instance.
func Asker(g store.Gate) string {
	if g.Instance == "" || g.Instance == g.Node {
		return cmp.Or(g.Node, string(g.Source))
	}
	return cmp.Or(g.Node, string(g.Source)) + "/" + g.Instance
}

// About returns what a gate is about: its question, or its action if it has none.
func About(g store.Gate) string {
	var act gate.Action
	if g.Question == "" && json.Unmarshal(g.Action, &act) == nil {
		return cmp.Or(act.Command, act.Tool, act.Type)
	}
	return Question(g.Question)
}

// Action reads the action of a gate. whole reports whether act is complete; if not, the
// stored action must be shown, since people must see everything that they approve.
func Action(g store.Gate) (act gate.Action, whole bool, err error) {
	if err := json.Unmarshal(g.Action, &act); err != nil {
		return gate.Action{}, false, fmt.Errorf("read the action of gate %s: %w", g.ID, err)
	}
	data, err := json.Marshal(act)
	if err != nil {
		return act, false, nil
	}
	var known, kept any
	if json.Unmarshal(data, &known) != nil || json.Unmarshal(g.Action, &kept) != nil {
		return act, false, nil
	}
	return act, inOrder(known) == inOrder(kept), nil
}

// inOrder formats a value with sorted keys.
func inOrder(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// A Gate is a gate of a task, without its action.
type Gate struct {
	ID         string           `json:"id" yaml:"id"`
	Kind       store.GateKind   `json:"kind" yaml:"kind"`
	State      store.GateState  `json:"state" yaml:"state"`
	Source     store.GateSource `json:"source" yaml:"source"`
	Thread     string           `json:"thread" yaml:"thread"`
	Label      string           `json:"label" yaml:"label"`
	Node       string           `json:"node" yaml:"node"`         // the role or gate of the flow that asks
	Instance   string           `json:"instance" yaml:"instance"` // whose attempt asks, or ""
	Question   string           `json:"question" yaml:"question"`
	Headline   string           `json:"-" yaml:"-"` // what it asks in one sentence
	Options    []string         `json:"options" yaml:"options"`
	OpenedAt   Time             `json:"openedAt" yaml:"openedAt"`
	ExpiresAt  Time             `json:"expiresAt" yaml:"expiresAt"`
	AnsweredAt Time             `json:"answeredAt" yaml:"answeredAt"`
	By         string           `json:"by" yaml:"by"`
	Via        store.Via        `json:"via" yaml:"via"`
	Ref        string           `json:"instructionsRef" yaml:"instructionsRef"`
	// AnswerWith is the first of Answers as a command line, set by the program that prints it.
	AnswerWith string          `json:"answerWith" yaml:"answerWith"`
	Answers    []advice.Option `json:"-" yaml:"-"` // while it is open, see [AnswersOf]
}

// AskedBy returns who asks, by its place in the task: "api/review".
func (g Gate) AskedBy() string {
	who := cmp.Or(g.Instance, g.Node)
	switch {
	case g.Label == "" || who == "":
		return g.Label + who
	case path.Base(g.Label) == who: // the agent of an action has the action's name
		return g.Label
	}
	return g.Label + "/" + who
}

// answersNow returns AnswersOf(g) if g is open, otherwise nil.
func answersNow(g store.Gate) []advice.Option {
	if !isOpen(g) {
		return nil
	}
	return AnswersOf(g)
}

func isOpen(g store.Gate) bool { return g.State == store.GateOpen }

func (r TaskRecord) gate(g store.Gate, labels map[string]string) Gate {
	if OnTeam(r.Root) {
		g.Ref = "" // no process reads that file
	}
	return Gate{
		ID: g.ID, Kind: g.Kind, State: g.State, Source: g.Source, Thread: g.Thread, Label: labels[g.Thread], Node: g.Node,
		Instance: g.Instance,
		Question: About(g), Headline: PhrasingOf(g).Text(), Options: orEmpty(g.Options),
		OpenedAt: Time(g.OpenedAt), ExpiresAt: Time(g.ExpiresAt),
		AnsweredAt: Time(g.AnsweredAt), By: g.By, Via: g.Via, Ref: g.Ref, Answers: answersNow(g),
	}
}
