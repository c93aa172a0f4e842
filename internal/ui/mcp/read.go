package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

type readArgs struct {
	Task string `json:"task,omitempty" jsonschema:"the id that start_task returned; default: the newest task that was started here"`
	Part string `json:"part,omitempty" jsonschema:"result (default), steps, step or evidence"`
	Step int    `json:"step,omitempty" jsonschema:"with part step: its number, as steps has it"`
	From int    `json:"from,omitempty" jsonschema:"with parts steps and evidence: the first number to be listed, from 1"`
}

// A reading is a part of what a task has done.
type reading struct {
	Task     string         `json:"task"`
	State    string         `json:"state"`
	Text     string         `json:"text,omitempty"`
	Fields   any            `json:"fields,omitempty" jsonschema:"the structured part of an output"`
	Steps    []stepLine     `json:"steps,omitempty"`
	Evidence []evidenceLine `json:"evidence,omitempty"`
	Next     int            `json:"next,omitempty" jsonschema:"from of the next page, where there is one"`
}

type stepLine struct {
	N      int    `json:"n"`
	Role   string `json:"role"`
	Status string `json:"status"`
	Text   string `json:"text" jsonschema:"its beginning"`
}

type evidenceLine struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`
	Title   string `json:"title"`
	Summary string `json:"summary,omitempty"`
	Proves  bool   `json:"proves" jsonschema:"false for what was declined, interrupted, or cannot be read"`
}

// Limits on the result of one call.
const (
	maxText  = 48 << 10 // bytes of a text
	maxLines = 100      // of a list
	maxBegin = 300      // characters of a text in a list
)

func (s *Server) readTask(ctx context.Context, _ *sdk.CallToolRequest, args readArgs) (*sdk.CallToolResult, reading, error) {
	root, err := s.task(ctx, args.Task)
	if err != nil {
		return nil, reading{}, err
	}
	t, err := s.cfg.Views.Task(ctx, root)
	if err != nil {
		return nil, reading{}, err
	}
	v := reading{Task: root.Short, State: string(t.Display.State)}
	switch args.Part {
	case "", "result":
		err = s.result(ctx, root, &v)
	case "steps":
		err = s.steps(ctx, root, max(1, args.From), &v)
	case "step":
		err = s.step(ctx, root, args.Step, &v)
	case "evidence":
		err = s.evidence(ctx, root, max(1, args.From), &v)
	default:
		err = fmt.Errorf("part %q: use result, steps, step or evidence", args.Part)
	}
	return nil, v, err
}

// result reads the task's result, or what it has come to so far.
func (s *Server) result(ctx context.Context, root store.Thread, v *reading) error {
	r, err := s.cfg.Views.Result(ctx, root)
	if err != nil {
		return err
	}
	v.Text = cut(r.Text)
	switch {
	case r.Step != nil:
		v.Fields = fields(r.Step.Meta)
	case r.Text == "":
		v.Text = "There is no result yet."
	}
	return nil
}

func (s *Server) steps(ctx context.Context, root store.Thread, from int, v *reading) error {
	steps, err := s.cfg.Views.Steps(ctx, root, from, maxLines)
	if err != nil {
		return err
	}
	for _, st := range steps {
		v.Steps = append(v.Steps, stepLine{st.N, st.Role, view.Outcome(st.Role, st.Meta), text.OneLine(st.Text, maxBegin)})
	}
	if last := from + len(steps); len(steps) == maxLines && last <= root.Steps {
		v.Next = last
	}
	return nil
}

func (s *Server) step(ctx context.Context, root store.Thread, n int, v *reading) error {
	if n < 1 || n > root.Steps {
		return fmt.Errorf("step %d: task %s has steps 1 to %d", n, root.Short, root.Steps)
	}
	steps, err := s.cfg.Views.Steps(ctx, root, n, 1)
	if err != nil {
		return err
	}
	for _, st := range steps {
		v.Text, v.Fields = cut(st.Text), fields(st.Meta)
	}
	return nil
}

func (s *Server) evidence(ctx context.Context, root store.Thread, from int, v *reading) error {
	entries, err := s.cfg.Dirs.Evidence(ctx, root.ID)
	if err != nil {
		return err
	}
	for i := from - 1; i < len(entries); i++ {
		if len(v.Evidence) == maxLines {
			v.Next = i + 1
			break
		}
		e := entries[i]
		v.Evidence = append(v.Evidence, evidenceLine{e.ID, e.Kind, text.OneLine(e.Title, maxBegin),
			text.OneLine(e.Summary, maxBegin), !e.Unfinished && e.Broken == ""})
	}
	return nil
}

func fields(meta json.RawMessage) any {
	if len(meta) == 0 {
		return nil
	}
	return meta
}

// cut shortens a text and marks the cut.
func cut(s string) string {
	head := text.Head(s, maxText)
	if len(head) == len(s) {
		return s
	}
	return strings.TrimRight(head, "\n") + fmt.Sprintf("\n\n[%d of %d bytes]", len(head), len(s))
}
