package session

import (
	"context"
	"encoding/json"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// crowdedAt is the part of the quota at which a conversation is summarized, and a session not continued.
const crowdedAt = 0.9

// Crowded reports whether so many tokens are too much of a thread's quota for another turn.
func Crowded(at *record.Position, tokens int) bool {
	return float64(tokens) >= crowdedAt*float64(at.Def.Context.Tokens)
}

// Beginning returns the step with whose summary a prompt begins, zero for none.
func Beginning(at *record.Position) dag.Hash {
	if record.WholeContext(at.Row) {
		return dag.Hash{}
	}
	return at.Summary
}

// fresh reports whether a session begins where a prompt would: with the last summary, or at the beginning.
func (k *Keeper) fresh(at *record.Position, s session) bool {
	switch {
	case s.memory != nil:
		return s.memory.Summary == Beginning(at)
	case s.last.IsZero():
		return at.Summary.IsZero() || s.from == at.Row.Head
	}
	return at.Summary.IsZero() || k.cfg.Replays // older releases continued it
}

// held returns how many tokens a session would hold of the conversation, with the steps since its last turn but
// without what a person said last.
func (k *Keeper) held(ctx context.Context, at *record.Position, s session) (int, error) {
	switch {
	case s.last.IsZero():
		return 0, nil
	case s.memory == nil && k.cfg.Replays:
		return 0, nil
	case s.memory == nil:
		return prompt.ApproxTokens(at.Talk), nil
	}
	bytes, newest := 0, true
	for step, err := range k.cfg.Nodes.Walk(ctx, at.Row.Head) {
		if err != nil {
			return 0, err
		}
		if step.Hash == s.knows {
			break
		}
		if newest = newest && step.State.Role == thread.RoleInput; newest {
			continue
		}
		text, err := k.cfg.Nodes.Text(ctx, step.State.Content)
		if err != nil {
			return 0, err
		}
		bytes += len(text)
	}
	return int(s.memory.Tokens) + prompt.ApproxTokens(bytes), nil
}

// Held returns how many tokens the session that an agent would continue for a role would hold of the conversation, with
// the steps since its last turn but without what a person said last. It reports false if there is no such session.
func (k *Keeper) Held(ctx context.Context, at *record.Position, all Sessions, role string, a agent.Agent) (tokens int,
	continues bool, err error) {
	s, ok := all.own[role]
	if _, can := a.(agent.Continuer); !ok || !can || s.gone || s.foreign || !k.fresh(at, s) {
		return 0, false, nil
	}
	tokens, err = k.held(ctx, at, s)
	return tokens, true, err
}

// A Turn is what an attempt added to its session.
type Turn struct {
	In       Choice          // the session before it
	Tries    []store.Attempt // the earlier attempts at the step
	Told     string          // what the prompt said of the conversation
	Heard    int             // bytes that commands and tools told the agent
	Requests [2]int64        // tokens of the messages in the first and the last request to the model, zero: not seen
	Result   agent.Result
	Recorded *thread.Memory // in a replay, what the session held then
}

// Memory returns what a session holds after a turn, nil if that is unknown. The size of the requests says it, if they
// were seen; otherwise it is what the agent was told, said, and saw of its commands and tools.
func (k *Keeper) Memory(at *record.Position, t Turn) *thread.Memory {
	m := thread.Memory{Summary: Beginning(at)}
	if t.In.Memory != nil {
		m = *t.In.Memory
	}
	switch {
	case t.Result.Session == "":
		return nil
	case k.cfg.Replays && t.Recorded == nil:
		return nil
	case k.cfg.Replays:
		m.Tokens, m.Bare = t.Recorded.Tokens, t.Recorded.Bare
		return &m
	}
	told := quotedTokens(t.Told)
	for _, a := range t.Tries {
		if a.Session == t.In.Session && t.In.Session != "" {
			m.Tokens += told // about that
		}
	}
	if first, last := t.Requests[0], t.Requests[1]; last > 0 {
		if m.Bare == 0 || t.In.From != nil {
			m.Bare = max(first-m.Tokens-told, 0)
		}
		m.Tokens = max(last-m.Bare, 0) + quotedTokens(string(t.Result.Output))
		return &m
	}
	m.Tokens += told + int64(prompt.ApproxTokens(t.Heard)) +
		max(quotedTokens(string(t.Result.Output)), t.Result.Usage.OutputTokens)
	return &m
}

// quotedTokens estimates the tokens of a text in a request.
func quotedTokens(text string) int64 {
	quoted, _ := json.Marshal(text) // every string can be
	return int64(prompt.ApproxTokens(len(quoted)))
}
