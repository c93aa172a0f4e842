package acp

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/jsonrpc"
)

// An updateLog collects the session updates of an agent. Its owner locks it.
type updateLog struct {
	kind       Kind
	message    strings.Builder // the current message
	thought    strings.Builder
	tools      map[string]*tool
	working    map[*tool]bool // those that run; some agents never report an end, so each response empties it
	responses  int            // pieces of text so far
	answer     string         // the last complete message
	denied     string         // what a person denied, if there was no message since
	modelError string         // the agent's reason why its model failed, if there was no message since
	hadText    bool           // there was a message
	model      string
	used       agent.Usage
}

func newUpdateLog(s *setup) updateLog {
	return updateLog{kind: s.agent.kind, tools: map[string]*tool{}, working: map[*tool]bool{}}
}

// update handles a session update at a line of the raw log, and returns its events. Updates of
// unknown kinds are only in the raw log.
func (n *updateLog) update(params json.RawMessage, line int) []agent.Event {
	var p struct {
		Update update `json:"update"`
	}
	if jsonrpc.Decode(params, &p) != nil {
		return nil
	}
	u := p.Update
	switch u.Kind {
	case "agent_message_chunk":
		var meta struct {
			Usage *tokenCounts `json:"usage"`
		}
		if json.Unmarshal(u.Meta, &meta) == nil && meta.Usage != nil && n.kind.Usage == InChunks {
			n.used = add(n.used, meta.Usage.usage(n.kind.Usage), n.kind.Usage)
		}
		said := textOf(u.Content)
		if n.kind.Notice != nil && n.kind.Notice.MatchString(said) {
			return nil
		}
		if n.kind.Again != nil && n.kind.Again.MatchString(said) {
			events := n.flush()
			n.answer = ""
			return events
		}
		if n.kind.Failed != nil && n.kind.Failed.MatchString(said) {
			events := append(n.flush(), agent.Event{Kind: agent.EventError, Text: said})
			n.answer, n.modelError = "", said
			return events
		}
		return n.say(&n.message, &n.thought, agent.EventMessage, said)
	case "agent_thought_chunk":
		return n.say(&n.thought, &n.message, agent.EventThought, textOf(u.Content))
	case "tool_call", "tool_call_update":
		events := n.flush()
		more, _ := n.merge(u.call, line, u.Kind == "tool_call")
		return append(events, more...)
	case "plan":
		return append(n.flush(), agent.Event{Kind: agent.EventPlan, ID: "plan", Phase: "updated", Detail: u.Entries})
	}
	return nil
}

// say adds a piece of text. It ends the text of the other kind.
func (n *updateLog) say(to, other *strings.Builder, kind, piece string) []agent.Event {
	if piece == "" {
		return nil
	}
	n.responses++
	clear(n.working)
	var events []agent.Event
	if other.Len() > 0 {
		events = n.flush()
	}
	if to.Len() == 0 && kind == agent.EventMessage {
		events = append(events, agent.Event{Kind: kind, Phase: "started", Text: piece})
	}
	if to.Len() < agent.MaxOutput+1 {
		to.WriteString(piece)
	}
	return events
}

// flush ends the current message and thought.
func (n *updateLog) flush() []agent.Event {
	var events []agent.Event
	if s := n.thought.String(); s != "" {
		events = append(events, agent.Event{Kind: agent.EventThought, Phase: "completed", Text: s})
	}
	if s := n.message.String(); s != "" {
		events = append(events, agent.Event{Kind: agent.EventMessage, Phase: "completed", Text: s})
		n.answer, n.denied, n.modelError, n.hadText = s, "", "", true
	}
	n.message.Reset()
	n.thought.Reset()
	return events
}

// declined records what a person declined.
func (n *updateLog) declined(what string) { n.denied, n.answer = what, "" }

// refusals ends the tools that a person declined, if the agent sends no more updates for them.
func (n *updateLog) refusals() []agent.Event {
	var events []agent.Event
	for _, id := range slices.Sorted(maps.Keys(n.tools)) {
		if u := n.tools[id]; u.declined && !u.ended {
			u.ended = true
			delete(n.working, u)
			events = append(events, u.event("declined"))
		}
	}
	return events
}

// merge applies an update of a tool call. It adds a call that was not announced: some agents do
// not announce calls, and a permission request can come before its call. begins says that c can only be of a call
// that has not ended: an agent can use an id again.
func (n *updateLog) merge(c call, line int, begins bool) ([]agent.Event, *tool) {
	u := n.tools[c.ID]
	if u == nil || begins && u.ended {
		u = &tool{call: call{ID: c.ID}, since: n.responses}
		n.tools[c.ID] = u
	}
	if u.ended {
		return nil, u
	}
	u.take(c)
	var events []agent.Event
	ended := u.Status == "completed" || u.Status == "failed"
	if !u.begun && (ended || u.known()) {
		u.begun = true
		e := u.event("started")
		e.Line = line
		events = append(events, e)
	}
	// some agents do not say which command it is
	if !ended && (u.begun || u.Status == "in_progress") && u.since == n.responses {
		n.working[u] = true
	}
	if ended {
		u.ended = true
		delete(n.working, u)
		e := u.event(cmp.Or(map[bool]string{true: "declined"}[u.declined], u.Status))
		e.Line, e.Output = line, u.output()
		if e.Kind == agent.EventCommand && !u.declined {
			e.Exit = u.exit(n.kind.Exit, e.Output)
			if e.Exit != nil {
				e.Phase = "completed" // whatever its exit code
			}
		}
		events = append(events, e)
	}
	return events, u
}

// tokenCounts is the usage that an agent reports.
type tokenCounts struct {
	Input      int64 `json:"inputTokens"`
	Output     int64 `json:"outputTokens"`
	Cached     int64 `json:"cachedReadTokens"`
	CachedAlso int64 `json:"cachedInputTokens"`
	Thought    int64 `json:"thoughtTokens"`
}

// usage converts the counts to one form: input includes cached tokens.
func (s *tokenCounts) usage(of Usage) agent.Usage {
	u := agent.Usage{InputTokens: s.Input, CachedInputTokens: max(s.Cached, s.CachedAlso), OutputTokens: s.Output,
		ReasoningTokens: s.Thought}
	switch of {
	case Unreported, OfLast:
		return agent.Usage{}
	case OfTurn:
		u.InputTokens += u.CachedInputTokens
	}
	return u
}

// add combines the usage of two turns of one process.
func add(a, b agent.Usage, of Usage) agent.Usage {
	if of == OfProcess { // the later one includes the earlier one
		return b
	}
	return agent.Usage{InputTokens: a.InputTokens + b.InputTokens,
		CachedInputTokens: a.CachedInputTokens + b.CachedInputTokens,
		OutputTokens:      a.OutputTokens + b.OutputTokens, ReasoningTokens: a.ReasoningTokens + b.ReasoningTokens}
}
