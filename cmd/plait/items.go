package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/store"
)

// items reads what an agent did from an event of type agent.item.
func items(ev store.Event) (role string, list []agent.Event) {
	var p struct {
		Role  string        `json:"role"`
		Items []agent.Event `json:"items"`
	}
	json.Unmarshal(ev.Payload, &p) // what does not fit is not shown
	return p.Role, p.Items
}

// itemLines says what an agent did, a line each, under a name.
func itemLines(ev store.Event, name string) string {
	_, list := items(ev)
	var lines []string
	for _, it := range list {
		if text := itemLine(it); text != "" {
			lines = append(lines, fmt.Sprintf("%-12s   %s", name, text))
		}
	}
	return strings.Join(lines, "\n")
}

// itemLine says one thing that an agent did, or "" where there is nothing to say:
// that a text was begun, that a program which is the agent itself runs.
func itemLine(it agent.Event) string {
	text := oneLine(it.Text, 120)
	switch it.Kind {
	case agent.EventMessage, agent.EventThought, agent.EventPlan:
		if it.Phase == "started" || it.Phase == "updated" && it.Kind != agent.EventPlan {
			return ""
		}
		if it.Kind == agent.EventMessage && (strings.HasPrefix(text, "{") || strings.HasPrefix(strings.TrimSpace(it.Text), "---\n")) {
			return "" // the answer: what comes of it is said
		}
		return text
	case agent.EventCommand:
		switch {
		case it.ID == "" || it.Phase == "updated":
			return ""
		case it.Phase == "started":
			return "$ " + text
		case it.Exit != nil && *it.Exit != 0:
			return fmt.Sprintf("✗ exit %d: %s", *it.Exit, text)
		case it.Phase == "failed" || it.Phase == "declined":
			return "✗ " + it.Phase + ": " + text
		}
		return ""
	case agent.EventFile:
		var names []string
		for _, f := range it.Files {
			names = append(names, f.Change+" "+f.Path)
		}
		list := oneLine(strings.Join(names, ", "), 160)
		switch it.Phase {
		case "completed":
			return "± " + list
		case "failed", "declined":
			return "✗ " + it.Phase + ": " + list
		}
		return ""
	case agent.EventTool:
		switch it.Phase {
		case "started":
			return "→ " + text
		case "failed", "declined":
			return "✗ " + it.Phase + ": " + text
		}
		return ""
	case agent.EventError:
		if it.WillRetry {
			return "! " + text + " (tries again)"
		}
		return "! " + text
	}
	return text
}

// Doings are the commands that were run and the files that were changed during
// an attempt.
type doings struct {
	Commands []ranCommand  `json:"commands"`
	Files    []changedFile `json:"files"`
	Tools    []string      `json:"tools"`
}

type ranCommand struct {
	Command string `json:"command"`
	Exit    *int   `json:"exit"`   // null when it did not end by itself
	Status  string `json:"status"` // completed failed declined
}

type changedFile struct {
	Path   string `json:"path"`
	Change string `json:"change"` // add update delete
}

// doings returns what was done during each attempt whose events are kept, by the
// attempts' threads.
func (w *workplace) doings(ctx context.Context, threads map[string]bool) (map[string]*doings, error) {
	out := map[string]*doings{}
	for id := range threads {
		row, err := w.store.Thread(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			continue // a fork outlives what it was forked from
		}
		if err != nil {
			return nil, err
		}
		const page = 1000
		for after := int64(0); ; {
			events, err := w.store.Events(ctx, after, store.EventFilter{Task: row.Task, Thread: id, Limit: page})
			if err != nil {
				return nil, err
			}
			for _, ev := range events {
				after = ev.Pos
				if ev.Type != "agent.item" {
					continue
				}
				d := out[ev.Attempt]
				if d == nil {
					d = &doings{Commands: []ranCommand{}, Files: []changedFile{}, Tools: []string{}}
					out[ev.Attempt] = d
				}
				_, list := items(ev)
				for _, it := range list {
					d.add(it)
				}
			}
			if len(events) < page {
				break
			}
		}
	}
	return out, nil
}

func (d *doings) add(it agent.Event) {
	if it.Phase != "completed" && it.Phase != "failed" && it.Phase != "declined" || it.ID == "" {
		return
	}
	switch it.Kind {
	case agent.EventCommand:
		d.Commands = append(d.Commands, ranCommand{it.Text, it.Exit, it.Phase})
	case agent.EventTool:
		d.Tools = append(d.Tools, it.Text)
	case agent.EventFile:
		if it.Phase == "completed" {
			for _, f := range it.Files {
				d.Files = append(d.Files, changedFile{f.Path, f.Change})
			}
		}
	}
}
