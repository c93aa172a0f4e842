package acp

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
)

// News is what an agent has told so far. Its owner guards it.
type news struct {
	kind    Kind
	said    strings.Builder // the message that is being said
	thought strings.Builder
	tools   map[string]*tool
	answer  string // the last message that was said to its end
	refused string // what a person said no to, when nothing was said since
	broken  string // what the agent says is why its model could not be asked, when nothing was said since
	words   bool   // something was said at all
	model   string
	used    agent.Usage
}

func newNews(s *site) news {
	return news{kind: s.agent.kind, tools: map[string]*tool{}}
}

// update takes in what stands at a line of the raw log, and returns what happened. Kinds that are not known are
// in the raw log only.
func (n *news) update(params json.RawMessage, line int) []agent.Event {
	var p struct {
		Update update `json:"update"`
	}
	if json.Unmarshal(params, &p) != nil {
		return nil
	}
	u := p.Update
	switch u.Kind {
	case "agent_message_chunk":
		var meta struct {
			Usage *spent `json:"usage"`
		}
		if json.Unmarshal(u.Meta, &meta) == nil && meta.Usage != nil && n.kind.Usage == InChunks {
			n.used = add(n.used, meta.Usage.usage(n.kind.Usage), n.kind.Usage)
		}
		said := text(u.Content)
		if n.kind.Notice != nil && n.kind.Notice.MatchString(said) {
			return nil
		}
		if n.kind.Failed != nil && n.kind.Failed.MatchString(said) {
			events := append(n.flush(), agent.Event{Kind: agent.EventError, Text: said})
			n.answer, n.broken = "", said
			return events
		}
		return n.say(&n.said, &n.thought, agent.EventMessage, said)
	case "agent_thought_chunk":
		return n.say(&n.thought, &n.said, agent.EventThought, text(u.Content))
	case "tool_call", "tool_call_update":
		events := n.flush()
		more, _ := n.merge(u.call, line)
		return append(events, more...)
	case "plan":
		return append(n.flush(), agent.Event{Kind: agent.EventPlan, ID: "plan", Phase: "updated", Detail: u.Entries})
	}
	return nil
}

// say takes in a piece of text. What was said of the other sort is over.
func (n *news) say(to, other *strings.Builder, kind, piece string) []agent.Event {
	if piece == "" {
		return nil
	}
	for _, u := range n.tools {
		u.passed = true
	}
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

// flush ends the message and the thought that are being said.
func (n *news) flush() []agent.Event {
	var events []agent.Event
	if s := n.thought.String(); s != "" {
		events = append(events, agent.Event{Kind: agent.EventThought, Phase: "completed", Text: s})
	}
	if s := n.said.String(); s != "" {
		events = append(events, agent.Event{Kind: agent.EventMessage, Phase: "completed", Text: s})
		n.answer, n.refused, n.broken, n.words = s, "", "", true
	}
	n.said.Reset()
	n.thought.Reset()
	return events
}

// working counts the tools that work. One that began before the model spoke again does not, whatever its agent
// says of it: some never tell that a tool has ended.
func (n *news) working() int {
	count := 0
	for _, u := range n.tools {
		if (u.begun || u.Status == "in_progress") && !u.ended && !u.passed { // not all tell which command it is
			count++
		}
	}
	return count
}

// declined notes that a person said no.
func (n *news) declined(what string) { n.refused, n.answer = what, "" }

// refusals ends the tools that a person said no to, where the agent tells nothing more of them.
func (n *news) refusals() []agent.Event {
	var events []agent.Event
	for _, id := range slices.Sorted(maps.Keys(n.tools)) {
		if u := n.tools[id]; u.declined && !u.ended {
			u.ended = true
			events = append(events, u.event("declined"))
		}
	}
	return events
}

// merge takes in what is told of a tool. One that was not announced is: some agents do not, and a question can
// overtake its tool.
func (n *news) merge(c call, line int) ([]agent.Event, *tool) {
	u := n.tools[c.ID]
	if u == nil {
		u = &tool{call: call{ID: c.ID}}
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
	if ended {
		u.ended = true
		e := u.event(cmp.Or(map[bool]string{true: "declined"}[u.declined], u.Status))
		e.Line, e.Output = line, u.output()
		if e.Kind == agent.EventCommand && !u.declined {
			e.Exit = u.exit(n.kind.Exit, e.Output)
			if e.Exit != nil {
				e.Phase = "completed" // it ran to its end
			}
		}
		events = append(events, e)
	}
	return events, u
}

// A spent is what an agent says that it used.
type spent struct {
	Input      int64 `json:"inputTokens"`
	Output     int64 `json:"outputTokens"`
	Cached     int64 `json:"cachedReadTokens"`
	CachedAlso int64 `json:"cachedInputTokens"`
	Thought    int64 `json:"thoughtTokens"`
}

// usage puts it in one form: with input that counts what was cached.
func (s *spent) usage(of Usage) agent.Usage {
	u := agent.Usage{InputTokens: s.Input, CachedInputTokens: max(s.Cached, s.CachedAlso), OutputTokens: s.Output, ReasoningTokens: s.Thought}
	switch of {
	case Unreported, OfLast:
		return agent.Usage{}
	case OfTurn:
		u.InputTokens += u.CachedInputTokens
	}
	return u
}

// add is what two turns of one process used.
func add(a, b agent.Usage, of Usage) agent.Usage {
	if of == OfProcess { // the later has the earlier in it
		return b
	}
	return agent.Usage{InputTokens: a.InputTokens + b.InputTokens, CachedInputTokens: a.CachedInputTokens + b.CachedInputTokens,
		OutputTokens: a.OutputTokens + b.OutputTokens, ReasoningTokens: a.ReasoningTokens + b.ReasoningTokens}
}
