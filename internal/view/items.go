package view

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/store"
)

// eventItem is the type of the events that say what an agent did.
const eventItem = "agent.item"

// Items reads what an agent did, and in which role, from an event of type
// agent.item. What does not fit is left out.
func Items(ev store.Event) (role string, list []agent.Event) {
	var p struct {
		Role  string        `json:"role"`
		Items []agent.Event `json:"items"`
	}
	json.Unmarshal(ev.Payload, &p) // what does not fit is not shown
	return p.Role, p.Items
}

// Doings are the commands that were run, the files that were changed and the tools
// that were called during an attempt, each in order.
type Doings struct {
	Commands []Command `json:"commands"`
	Files    []Change  `json:"files"`
	Tools    []string  `json:"tools"` // names
}

// A Command is one that an agent ran.
type Command struct {
	Command string `json:"command"`
	Exit    *int   `json:"exit"`   // null when it did not end by itself
	Status  string `json:"status"` // completed failed declined
}

// A Change is a file that an agent changed.
type Change struct {
	Path   string `json:"path"`
	Change string `json:"change"` // add update delete
}

// Add takes in one thing that an agent did; what has not ended is left out.
func (d *Doings) Add(it agent.Event) {
	if it.Phase != "completed" && it.Phase != "failed" && it.Phase != "declined" || it.ID == "" {
		return
	}
	switch it.Kind {
	case agent.EventCommand:
		d.Commands = append(d.Commands, Command{it.Text, it.Exit, it.Phase})
	case agent.EventTool:
		d.Tools = append(d.Tools, it.Text)
	case agent.EventFile:
		if it.Phase == "completed" {
			for _, f := range it.Files {
				d.Files = append(d.Files, Change{f.Path, f.Change})
			}
		}
	}
}

// doings returns what was done during each attempt whose events are kept, by the
// attempts' threads.
func (b *Book) doings(ctx context.Context, threads map[string]bool) (map[string]*Doings, error) {
	out := map[string]*Doings{}
	for id := range threads {
		row, err := b.Store.Thread(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			continue // a fork outlives what it was forked from
		}
		if err != nil {
			return nil, err
		}
		const page = 1000
		for after := int64(0); ; {
			events, err := b.Store.Events(ctx, after, store.EventFilter{Task: row.Task, Thread: id, Types: []string{eventItem}, Limit: page})
			if err != nil {
				return nil, err
			}
			for _, ev := range events {
				after = ev.Pos
				d := out[ev.Attempt]
				if d == nil {
					d = &Doings{Commands: []Command{}, Files: []Change{}, Tools: []string{}}
					out[ev.Attempt] = d
				}
				_, list := Items(ev)
				for _, it := range list {
					d.Add(it)
				}
			}
			if len(events) < page {
				break
			}
		}
	}
	return out, nil
}
