package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// gate asks a person the flow's question, once. When it is answered, gate commits the answer as the gate's
// step.
func (e *Engine) gate(ctx context.Context, c *threadState, d flow.Gate) (store.Thread, error) {
	ctx = context.WithoutCancel(ctx)
	fail := func(err error) (store.Thread, error) {
		return store.Thread{}, fmt.Errorf("thread %s: gate %s: %w", c.Row.ID, d.Node, err)
	}
	g := store.Gate{
		Kind: store.GateKind(d.Kind), Source: store.SourceFlow, Task: c.Row.Task, Thread: c.Row.ID, Node: d.Node,
		Question: d.Question, Options: d.Options, OnTimeout: d.OnTimeout,
	}
	switch action := c.Def.ActionID(); {
	case d.Input: // the role asks, not a gate of the flow
		g.Source, g.Instance = store.SourceAgent, record.Instance(c.Row, c.Def, d.Node)
	case action != "":
		g.Source, g.Node, g.Instance = store.SourceWorker, action, record.Instance(c.Row, c.Def, action)
	}
	var err error
	if g.From, err = e.beforeSummary(ctx, c.Row.Head); err != nil {
		return fail(err)
	}
	if d.Question, err = e.recordedQuestion(ctx, c, d, g.From); err != nil {
		return fail(err)
	}
	g.Question = d.Question
	if g.Kind == store.GateApproval {
		// The approval is for continuing from here, with this question in mind.
		g, err = approval(g, gate.Action{Type: gate.FlowNode},
			map[string]any{"gate": d.Node, "question": d.Question, "head": g.From})
	} else {
		g.Digest, err = gate.QuestionDigest(g.Thread, g.Question, g.Options)
	}
	if err != nil {
		return fail(err)
	}
	if d.Timeout > 0 {
		g.ExpiresAt = e.now() + int64(d.Timeout)/1e6
	}
	effective, err := e.gates.Ask(ctx, g)
	if err != nil {
		return fail(err)
	}
	if effective.State == store.GateOpen {
		return e.block(ctx, c, gateReason(effective))
	}
	return e.passed(ctx, c, d, effective)
}

// recordedQuestion returns the question of a gate as it was asked at from before, perhaps by an older release: a
// person's answer to it counts.
func (e *Engine) recordedQuestion(ctx context.Context, c *threadState, d flow.Gate, from dag.Hash) (string, error) {
	gates, err := e.gatesOf(ctx, c.Row)
	if err != nil || !slices.ContainsFunc(gates, func(g store.Gate) bool {
		return g.From == from && g.Question != d.Question
	}) {
		return d.Question, err
	}
	older := record.New(e.cfg.Reader, e.cfg.Store)
	older.AsRecorded = true
	p, _, err := older.Position(ctx, c.Row)
	if err != nil {
		return "", err
	}
	if then, ok := p.Next().(flow.Gate); ok {
		return then.Question, nil
	}
	return d.Question, nil
}

// approval returns g as a gate that asks whether one exact action may be taken.
func approval(g store.Gate, act gate.Action, params map[string]any) (store.Gate, error) {
	var err error
	if act.Params, err = json.Marshal(params); err != nil {
		return g, err
	}
	if g.Action, err = json.Marshal(act); err != nil {
		return g, err
	}
	g.Kind = store.GateApproval
	g.Digest, err = gate.Digest(g.Thread, g.Action)
	return g, err
}

// ignoreConflict drops the error of a change to a gate if someone else was first.
func ignoreConflict(_ store.Gate, err error) error {
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// beforeSummary returns the step at or before a head that is not a summary: a question stays the same when the
// conversation before it is summarized.
func (e *Engine) beforeSummary(ctx context.Context, head dag.Hash) (dag.Hash, error) {
	for s, err := range e.cfg.Reader.Walk(ctx, head) {
		if err != nil || s.State.Role != thread.RoleCompact {
			return s.Hash, err
		}
	}
	return head, nil
}

// gateReason is why a thread is blocked at an open gate of its flow, or by what a role asks.
func gateReason(g store.Gate) store.Reason {
	if g.Source == store.SourceAgent {
		return store.Reason{Kind: store.ReasonInput, Gate: g.ID, Message: event.Brief(g.Question)}
	}
	return store.Reason{Kind: store.ReasonGate, Gate: g.ID, Message: event.Brief(g.Node + " asks: " + g.Question)}
}

// passed commits the step of a gate that was answered or timed out.
func (e *Engine) passed(ctx context.Context, c *threadState, d flow.Gate, g store.Gate) (store.Thread, error) {
	status, text := string(g.State), g.Text
	if g.State == store.GateExpired {
		status = d.OnTimeout
	}
	if text == "" {
		text = status
	}
	meta, err := dag.Marshal(map[string]any{"$status": status, "answer": g.Text})
	if err != nil {
		return store.Thread{}, err
	}
	draft := thread.Draft{Role: d.Node, Meta: meta, Text: text, Detail: thread.ByPerson(g.By, g.OpenedAt, g.AnsweredAt),
		At: e.now()}
	if d.Input {
		draft.Role, draft.Meta = thread.RoleInput, thread.InputMeta("gate", g.ID)
		if g.Via == store.ViaResume {
			draft.Meta = thread.InputMeta(string(g.Via), g.ID)
		}
	}
	return e.append(ctx, c, draft, func(ch thread.Change) store.Event {
		return event.New(c.Row, draft.At, event.GateChanged{
			Change: event.GateUsed, Gate: g.ID, Kind: g.Kind, Source: g.Source, Node: d.Node, State: g.State,
			Status: status, Step: ch.Step.Hash, N: ch.Row.Steps,
		})
	})
}

// approvals returns what people answered at a thread's head, for the step that follows it: see [thread.ApprovalHash].
// It includes what was asked before the conversation up to there was summarized.
func (e *Engine) approvals(ctx context.Context, row store.Thread) (thread.Answers, error) {
	list := thread.Answers{Present: true}
	gates, err := e.gatesOf(ctx, row)
	if err != nil || len(gates) == 0 {
		return list, err
	}
	heads := map[dag.Hash]bool{row.Head: true}
	for s, err := range e.cfg.Reader.Walk(ctx, row.Head) {
		if err != nil {
			return list, err
		}
		heads[s.Hash] = true
		if s.State.Role != thread.RoleCompact {
			break
		}
	}
	for _, g := range gates {
		if heads[g.From] && thread.Decided(g) {
			list.Hashes = append(list.Hashes, thread.ApprovalHash(g))
		}
	}
	slices.SortFunc(list.Hashes, func(a, b dag.Hash) int { return bytes.Compare(a[:], b[:]) })
	return list, nil
}
