package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/replay"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
)

// A Fixture is a run of a flow, which can be run again without its agents.
type Fixture struct {
	Prompt  string          `json:"prompt"`
	Steps   []FixtureStep   `json:"steps"` // of the main thread
	Answers []FixtureAnswer `json:"answers,omitempty"`
	replay.Recording
}

// A FixtureStep is a step that a flow took.
type FixtureStep struct {
	Role   string          `json:"role"`
	Meta   json.RawMessage `json:"meta"`
	Digest dag.Hash        `json:"digest"` // of the outcome up to it, see thread.Reader.Digest
}

// A FixtureAnswer is what a person said to a question or an approval of a flow.
type FixtureAnswer struct {
	Node  string          `json:"node"`
	State store.GateState `json:"state"`
	Text  string          `json:"text,omitempty"`
	Via   store.Via       `json:"via,omitempty"` // if the step that it makes records that
}

// Fixture returns a task that has ended, and was begun with a prompt, as a fixture.
func (c *Controller) Fixture(ctx context.Context, row store.Thread, prompt string) (f Fixture, err error) {
	f.Prompt = prompt
	switch {
	case row.Root != row.ID:
		return f, usage("thread %s is part of task %s; record the task", row.ID, row.Root)
	case !row.Ended():
		return f, usage("task %s has not ended", row.ID)
	}
	if f.Recording, err = replay.Record(ctx, c.reader, row.Head); err != nil {
		return f, fmt.Errorf("record task %s: %w", row.ID, err)
	}
	gates, err := c.cfg.Store.Gates(ctx, store.GateFilter{Task: row.ID})
	for _, g := range gates {
		switch g.State {
		case store.GateApproved, store.GateRejected, store.GateAnswered:
			if g.Kind == store.GateInput || g.Source != store.SourceAgent { // recorded agents do not ask to do something
				a := FixtureAnswer{Node: g.Node, State: g.State, Text: g.Text}
				if g.Via == store.ViaResume {
					a.Via = g.Via
				}
				f.Answers = append(f.Answers, a)
			}
		}
	}
	if err == nil {
		f.Steps, err = c.fixtureSteps(ctx, row.Head)
	}
	if err != nil {
		return f, fmt.Errorf("record task %s: %w", row.ID, err)
	}
	return f, nil
}

func (c *Controller) fixtureSteps(ctx context.Context, head dag.Hash) (list []FixtureStep, err error) {
	taken, err := steps(ctx, c.reader, head)
	for _, s := range taken {
		if s.State.Role == thread.RoleCompact {
			continue
		}
		digest, err := c.reader.Digest(ctx, s.Hash)
		if err != nil {
			return nil, err
		}
		list = append(list, FixtureStep{s.State.Role, json.RawMessage(s.State.Meta), digest})
	}
	return list, err
}

// Rehearse runs a flow with the answers of a fixture, in a workspace and a record of its own: those of cfg. It returns how
// the outcome differs, "" if it does not.
func Rehearse(ctx context.Context, cfg Config, bundle thread.Bundle, workspace string, f Fixture) (string, error) {
	player, err := replay.New(f.Recording)
	if err != nil {
		return "", usage("%w", err)
	}
	cfg.Agent = func(string, flow.Agent, AgentOptions) (agent.Agent, error) { return player, nil }
	c := New(cfg)
	row, err := c.Begin(ctx, Spec{Bundle: bundle, Prompt: f.Prompt, Workspace: workspace})
	for err == nil {
		if row, err = c.Drive(ctx, row.ID, Resume{}); err != nil || row.Ended() {
			break
		}
		var asked bool
		if asked, err = c.answerFrom(ctx, row.ID, &f.Answers); !asked {
			break
		}
	}
	var off *offScript
	if errors.As(err, &off) {
		return off.Error(), nil
	}
	if err != nil {
		return "", fmt.Errorf("test flow %s: %w", bundle.Name, err)
	}
	now, err := c.fixtureSteps(ctx, row.Head)
	if err != nil {
		return "", fmt.Errorf("test flow %s: %w", bundle.Name, err)
	}
	return differs(f.Steps, now, row), nil
}

// answerFrom answers the open questions of a task, and reports whether there were any.
func (c *Controller) answerFrom(ctx context.Context, task string, answers *[]FixtureAnswer) (bool, error) {
	open, err := c.gates.Gates(ctx, store.GateFilter{Task: task, State: store.GateOpen})
	for _, g := range open {
		i := slices.IndexFunc(*answers, func(a FixtureAnswer) bool { return a.Node == g.Node })
		if i < 0 {
			return true, &offScript{fmt.Sprintf("%s asks what it did not ask when it was recorded: %s", g.Node,
				text.OneLine(g.Question, 120))}
		}
		then := (*answers)[i]
		*answers = slices.Delete(slices.Clone(*answers), i, i+1)
		said := gate.Answer{Text: then.Text, Via: cmp.Or(then.Via, store.ViaReplay),
			Approve: then.State == store.GateApproved, Reject: then.State == store.GateRejected}
		if _, err := c.gates.Answer(ctx, g.ID, said); err != nil {
			return true, err
		}
	}
	return len(open) > 0, err
}

// differs returns where the steps differ, "" if they do not. row is the task that took those of now.
func differs(then, now []FixtureStep, row store.Thread) string {
	for i, s := range then {
		switch {
		case i == len(now):
			why := ""
			if row.Reason != nil {
				why = ": " + thread.Plainly(row.Reason.Message)
			}
			return fmt.Sprintf("step %d, %s, is missing%s", i+1, s.Role, why)
		case s.Digest == now[i].Digest:
			continue
		case s.Role != now[i].Role:
			return fmt.Sprintf("step %d was %s, and is now %s", i+1, s.Role, now[i].Role)
		case compact(s.Meta) != compact(now[i].Meta):
			return fmt.Sprintf("step %d: %s returned %s, and now %s", i+1, s.Role, compact(s.Meta), compact(now[i].Meta))
		}
		return fmt.Sprintf("step %d: %s says something else, or its paths do", i+1, s.Role)
	}
	if len(now) > len(then) {
		return fmt.Sprintf("step %d, %s, is new", len(then)+1, now[len(then)].Role)
	}
	return ""
}

// compact returns JSON as it is in a step: a fixture's has lines.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	json.Compact(&b, raw) // it was decoded
	return b.String()
}
