package view

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// Items decodes an event of type agent.item: the role, and what its agent did. Items of unknown
// form are omitted.
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

// Activity lists the commands, file changes and tool calls of an attempt, each in order.
type Activity struct {
	Commands []Command `json:"commands"`
	Files    []Change  `json:"files"`
	Tools    []string  `json:"tools"` // names
}

// A Command is one that an agent ran.
type Command struct {
	Command string `json:"command"`
	Exit    *int   `json:"exit"`   // null if it did not finish
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

// Add adds one item; an unfinished one is ignored.
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

// eventPage is how many events are read at a time.
const eventPage = 1000

// AttemptItems returns what an agent did during an attempt, in order, or nothing if its events are
// gone.
func (b *Reader) AttemptItems(ctx context.Context, attempt string) ([]agent.Event, error) {
	var back [][]agent.Event
	err := b.eachItems(ctx, []string{attempt}, func(_ string, items []agent.Event) { back = append(back, items) })
	slices.Reverse(back)
	return slices.Concat(back...), err
}

// eachItems calls take with the items of each event of the given attempts, the newest event of an
// attempt first. It reads the journal backwards until the first of them began, so recent attempts
// are the cheapest.
func (b *Reader) eachItems(ctx context.Context, attempts []string,
	take func(attempt string, items []agent.Event)) error {
	asked := map[string]map[string]bool{} // by thread, the attempts whose beginning has not been reached
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
			continue // a fork outlives its origin
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
