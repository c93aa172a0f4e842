package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// Task returns the task as people see it.
func (r TaskRecord) Task() Task {
	labels := labelsOf(r.Threads)
	// Sorted by label, a thread follows the one above it.
	r.Threads = slices.SortedStableFunc(slices.Values(r.Threads),
		func(a, b store.Thread) int { return cmp.Compare(labels[a.ID], labels[b.ID]) })
	v := Task{
		ID: r.Root.ID, Short: r.Root.Short, State: State(r.Root, slices.ContainsFunc(r.Gates, isOpen)), Topology: "squad",
		Flow: r.Root.Flow, Bundle: spell(r.Root.Bundle), Head: spell(r.Root.Head), Status: r.status(r.Root),
		Reason: reason(r.Root), Dismissed: r.Root.Intent == store.IntentDismiss,
		Steps: r.Root.Steps, CreatedAt: Time(r.Root.CreatedAt), UpdatedAt: Time(r.Root.UpdatedAt),
		Workspace: r.Root.Workspace,
		Title:     titleOf(r.Prompt, r.Root), Config: settings(r.Root.Options),
		Controller: r.controller(), Next: r.next(), Roster: r.roster(labels), Milestones: r.milestones(labels),
		Gates: []Gate{}, Threads: []TaskThread{}, Result: r.result,
	}
	if r.Planned {
		v.Topology = "swarm"
	}
	if from := r.Root.ForkedFrom; from != nil {
		v.ForkedFrom = &Origin{from.Thread, spell(from.Step)}
	}
	for _, t := range r.Threads {
		v.UpdatedAt = max(v.UpdatedAt, Time(t.UpdatedAt), Time(t.EndedAt))
		v.Threads = append(v.Threads, TaskThread{
			ID: t.ID, Label: labels[t.ID], Kind: t.Kind, Flow: t.Flow, Status: r.status(t), Reason: reason(t),
			Head: spell(t.Head), Steps: t.Steps, Kept: r.kept[t.ID],
		})
	}
	var sum store.Usage
	for _, a := range r.Attempts {
		v.UpdatedAt = max(v.UpdatedAt, Time(a.StartedAt), Time(a.EndedAt))
		sum = sum.Add(a.Usage)
	}
	v.Usage = Usage(sum)
	for _, g := range r.Gates {
		v.UpdatedAt = max(v.UpdatedAt, Time(g.OpenedAt), Time(g.AnsweredAt), Time(g.UsedAt))
		v.Gates = append(v.Gates, r.gate(g, labels))
	}
	v.Display = r.display(r.Root, v.questionBelow(""))
	v.Display.Reason += v.alsoAsked()
	for i, t := range v.Threads {
		v.Threads[i].Display = r.display(r.Threads[i], v.questionBelow(t.Label))
	}
	return v
}

func spell(h dag.Hash) string {
	if h.IsZero() {
		return ""
	}
	return h.String()
}

// questionBelow returns the oldest open gate of the thread with a label or of one below it, or
// nil.
func (v Task) questionBelow(label string) *Gate {
	for _, g := range v.OpenGates() {
		if label == "" || g.Label == label || strings.HasPrefix(g.Label, label+"/") {
			return &g
		}
	}
	return nil
}

// alsoAsked counts the open gates that the display of the task does not name: " (+ 1 approval)". It returns "" if
// there are none.
func (v Task) alsoAsked() string {
	open := v.OpenGates()
	if len(open) < 2 || v.Display.State != DisplayNeedsYou || v.Status == Interrupted {
		return ""
	}
	var more []string
	for _, kind := range []store.GateKind{store.GateInput, store.GateApproval} {
		n := 0
		for _, g := range open[1:] {
			if g.Kind == kind {
				n++
			}
		}
		if n > 0 {
			more = append(more, number(n, KindWord(kind)))
		}
	}
	return " (+ " + strings.Join(more, ", ") + ")"
}
