package web

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/text"
)

// A doneItem is one thing that an agent did, as a step's page shows it.
type doneItem struct {
	agent.Event
	N    int
	Long bool
}

// Said reports whether the item is words of the agent.
func (d doneItem) Said() bool {
	return d.Kind == agent.EventMessage || d.Kind == agent.EventThought || d.Kind == agent.EventError
}

// itemVerbs say what an item is, before its text.
var itemVerbs = map[string]string{agent.EventCommand: "Ran", agent.EventFile: "Edited", agent.EventTool: "Called",
	agent.EventPlan: "Planned", agent.EventProgress: "Printed"}

// Verb returns what was done, as the beginning of a sentence.
func (d doneItem) Verb() string { return cmp.Or(itemVerbs[d.Kind], d.Kind) }

// More reports whether the text has more than the line that stands for it.
func (d doneItem) More() bool { return line(160, d.Text) != strings.TrimSpace(d.Text) }

// How returns how an item ended.
func (d doneItem) How() string {
	var parts []string
	switch {
	case d.Exit != nil:
		parts = append(parts, "exit "+strconv.Itoa(*d.Exit))
	case d.Phase == "started" || d.Phase == "updated":
		parts = append(parts, "running")
	case d.Phase != "completed" && d.Phase != "":
		parts = append(parts, d.Phase)
	}
	if n := strings.Count(strings.TrimSpace(d.Output), "\n"); d.Output != "" {
		parts = append(parts, text.Count(n+1, "line"))
	}
	return strings.Join(parts, " · ")
}

// shownDone limits the activity that a step's page shows: the newest items.
const shownDone = 500

// doneItems returns an agent's activity, each item as it ended, or as it began.
func doneItems(items []agent.Event) []doneItem {
	var out []doneItem
	at := map[string]int{} // of items that have not ended, in out
	for _, it := range items {
		if it.Kind == agent.EventUsage {
			continue
		}
		one := doneItem{it, len(out), len(it.Text)+len(it.Output) > 2000}
		begun := it.Phase == "started" || it.Phase == "updated"
		if i, ok := at[it.ID]; ok && it.ID != "" {
			if it.Phase == "updated" {
				continue
			}
			one.N = i
			out[i] = one
		} else {
			out = append(out, one)
		}
		if delete(at, it.ID); begun {
			at[it.ID] = one.N
		}
	}
	return out
}
