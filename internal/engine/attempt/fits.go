package attempt

import (
	"fmt"
	"unicode/utf8"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/briefing"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// Fits returns why an agent with which a thread begins could never be sent its prompt, or nil. def is the flow of row,
// and task the prompt of the thread.
func (a Agents) Fits(row store.Thread, def *flow.Definition, task string) error {
	runs, err := first(flow.At{Flow: row.Flow, Prompt: task}, def)
	if err != nil {
		return err
	}
	for _, d := range runs {
		role := def.Roles[d.Role]
		w, err := a.Worker(row, d.Role, role)
		if err != nil {
			return err
		}
		text := briefing.Contract(role, w.shapes(role)) + briefing.Describe(d.Role, role) + d.Prompt
		if at := (&record.Position{Row: row, Def: def, Prompt: task}); !repeatsTask(at, d) {
			text += task
		}
		bounded, _ := w.Agent.(agent.Bounded)
		switch {
		case len(text) > dag.MaxBytes:
			err = fmt.Errorf("it would have at least %d bytes, and a prompt may have %d", len(text), dag.MaxBytes)
		case bounded != nil && utf8.RuneCountInString(text) > bounded.MaxPrompt():
			err = fmt.Errorf("it would have at least %d characters, and agent %s takes %d", utf8.RuneCountInString(text), w.Name,
				bounded.MaxPrompt())
		}
		if err != nil {
			return Usage("the prompt does not fit into that of role %s: %w; put what is long into a file", d.Role, err)
		}
	}
	return nil
}

// first returns the roles with which a thread begins: one, or one of each path.
func first(at flow.At, def *flow.Definition) (runs []flow.Run, err error) {
	switch d := flow.Next(def, at, nil).(type) {
	case flow.Run:
		return []flow.Run{d}, nil
	case flow.Blocked:
		return nil, Usage("%s", d.Reason)
	case flow.Fork:
		for _, path := range d.Paths {
			at.Path = path.ID
			own, err := first(at, def)
			if err != nil {
				return nil, err
			}
			runs = append(runs, own...)
		}
	}
	return runs, nil
}
