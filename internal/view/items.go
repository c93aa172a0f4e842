package view

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/store"
)

// Items reads what an agent did, and in which role, from an event of type
// agent.item. What does not fit is left out.
func Items(ev store.Event) (role string, list []agent.Event) {
	p, _ := event.Read(ev).(event.AgentItems)
	for _, data := range p.Items {
		var item agent.Event
		if json.Unmarshal(data, &item) == nil {
			list = append(list, item)
		}
	}
	return p.Role, list
}

// Activity are the commands that were run, the files that were changed and the tools
// that were called during an attempt, each in order.
type Activity struct {
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

func newActivity(items []agent.Event) *Activity {
	d := &Activity{Commands: []Command{}, Files: []Change{}, Tools: []string{}}
	for _, it := range items {
		d.Add(it)
	}
	return d
}

// Add takes in one thing that an agent did; what has not ended is left out.
func (d *Activity) Add(it agent.Event) {
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

// eventPage is how many events are read at once.
const eventPage = 1000

// Attempted returns what an agent did during an attempt, in order; nothing when its events
// are gone.
func (b *Reader) Attempted(ctx context.Context, attempt string) ([]agent.Event, error) {
	var back [][]agent.Event
	err := b.eachItems(ctx, []string{attempt}, func(_ string, items []agent.Event) { back = append(back, items) })
	slices.Reverse(back)
	return slices.Concat(back...), err
}

// eachItems calls take with what each event says that was done during attempts, given by
// their ids: of each attempt the newest event first. It reads the journal from its end back
// to where the first of them began, so that the newest attempts are the cheapest.
func (b *Reader) eachItems(ctx context.Context, attempts []string,
	take func(attempt string, items []agent.Event)) error {
	asked := map[string]map[string]bool{} // attempts whose beginning was not reached, by thread
	for _, at := range attempts {
		id, _, _ := strings.Cut(at, ".")
		if asked[id] == nil {
			asked[id] = map[string]bool{}
		}
		asked[id][at] = true
	}
	for id, open := range asked {
		row, err := b.Store.Thread(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			continue // a fork outlives what it was forked from
		}
		if err != nil {
			return err
		}
		by := store.EventFilter{Task: row.Task, Thread: id, Types: event.Types(event.AgentItems{}, event.AttemptStarted{}),
			Newest: true, Limit: eventPage}
		for more := true; more && len(open) > 0; {
			events, err := b.Store.Events(ctx, 0, by)
			if err != nil {
				return err
			}
			for _, ev := range events {
				by.Before = ev.Pos
				switch {
				case !open[ev.Attempt]:
				case event.Is(ev, event.AttemptStarted{}):
					delete(open, ev.Attempt)
				default:
					_, items := Items(ev)
					take(ev.Attempt, items)
				}
			}
			more = len(events) == eventPage
		}
	}
	return nil
}
