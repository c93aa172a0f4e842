package attempt

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/thread"
)

// maxSubmitted is how many entries an answer may hand in.
const maxSubmitted = 200

// A submitted entry is evidence that an agent points out in its answer.
type submitted struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	Title     string `json:"title"`
	Summary   string `json:"summary"`
	Path      string `json:"path"`
	StartLine *int   `json:"startLine"`
	EndLine   *int   `json:"endLine"`
	Command   string `json:"command"` // of a command: its line, or the id of its entry
}

var ownID = regexp.MustCompile(`^(cmd|change|tool)(-[0-9]+)+$`)

// readSubmitted reads the field evidence of meta: entries, and citations of others. Where
// nothing holds the agent to that form, what has another one is passed over: a flow
// may mean something else by the word.
func readSubmitted(meta json.RawMessage, strict bool) (entries []submitted, cited []string, problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	var fields map[string]json.RawMessage
	if json.Unmarshal(meta, &fields) != nil || len(fields["evidence"]) == 0 || string(fields["evidence"]) == "null" {
		return nil, nil, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(fields["evidence"], &list) != nil {
		if strict {
			bad("evidence must be a list of ids and entries")
		}
		return nil, nil, problems
	}
	for i, item := range list {
		var id string
		if json.Unmarshal(item, &id) == nil {
			if strict {
				cited = append(cited, strings.TrimPrefix(id, "evidence:"))
			}
			continue
		}
		var kind struct {
			Kind any `json:"kind"`
		}
		known := json.Unmarshal(item, &kind) == nil &&
			(kind.Kind == thread.FileAnchor || kind.Kind == thread.CommandExecution)
		if !known {
			if strict {
				bad("evidence[%d]: want the id of an entry, or an object whose kind is %s or %s", i, thread.FileAnchor,
					thread.CommandExecution)
			}
			continue
		}
		if len(entries) == maxSubmitted {
			bad("evidence has more than %d entries: keep those that prove something", maxSubmitted)
			break
		}
		var h submitted
		if err := json.Unmarshal(item, &h); err != nil {
			bad("evidence[%d]: %s", i, strings.TrimPrefix(err.Error(), "json: "))
			continue
		}
		if what := h.wrong(); what != "" {
			bad("evidence[%d]: %s", i, what)
			continue
		}
		if slices.ContainsFunc(entries, func(o submitted) bool { return o.ID == h.ID }) {
			bad("evidence[%d]: the id %s stands twice", i, h.ID)
			continue
		}
		entries = append(entries, h)
	}
	return entries, cited, problems
}

// wrong says what is wrong with the form of an entry, or "".
func (h submitted) wrong() string {
	switch {
	case !thread.LocalID(h.ID):
		return fmt.Sprintf("the id %q must be lower-case letters, digits and hyphens, at most 32 of them",
			event.Brief(h.ID))
	case ownID.MatchString(h.ID):
		return fmt.Sprintf("the id %s is of the kind that is given to commands, file changes and tool calls: choose another", h.ID)
	case oneLine(h.Title) == "":
		return fmt.Sprintf("%s has no title", h.ID)
	case h.Kind == thread.FileAnchor && h.Path == "":
		return fmt.Sprintf("%s has no path", h.ID)
	case h.Kind == thread.CommandExecution && h.Command == "":
		return fmt.Sprintf("%s must name in command a command that you ran: its line, or its id (cmd-1 is the first of your first turn)",
			h.ID)
	case h.StartLine == nil && h.EndLine != nil:
		return fmt.Sprintf("%s has an endLine but no startLine", h.ID)
	case h.StartLine != nil && *h.StartLine < 1, h.EndLine != nil && *h.EndLine < *h.StartLine:
		return fmt.Sprintf("%s: lines count from 1, and endLine is not before startLine", h.ID)
	}
	return ""
}

// citationsIn lists the ids that an answer cites, in its text and in the texts of its
// meta.
func citationsIn(text string, meta json.RawMessage) []string {
	ids := flow.Citations(text)
	var v any
	if json.Unmarshal(meta, &v) == nil {
		eachText(v, func(s string) { ids = append(ids, flow.Citations(s)...) })
	}
	return ids
}

// cited lists the ids that an answer cites. What a program prints, or an agent says in a chat,
// is not sent back, so it is not looked at unless the agent is held to its citations. The
// inputs of a plan's actions are no citations.
func (p *Prepared) cited(ans *answer, result agent.Result) []string {
	switch {
	case !p.strict && (p.Role.Chat || result.Plain):
		return nil
	case !p.Role.Plan:
		return citationsIn(ans.text, ans.meta)
	case json.Valid([]byte(ans.text)): // the plan itself
		return citationsIn("", claims(ans.meta))
	}
	return citationsIn(ans.text, claims(ans.meta))
}

// claims returns the meta of a plan without the inputs of its actions: to hand something on claims nothing.
func claims(meta json.RawMessage) json.RawMessage {
	var v map[string]any
	if json.Unmarshal(meta, &v) != nil {
		return meta
	}
	actions, _ := v["actions"].([]any)
	for _, a := range actions {
		if a, ok := a.(map[string]any); ok {
			delete(a, "inputs")
		}
	}
	out, err := json.Marshal(v)
	if err != nil {
		return meta
	}
	return out
}

func eachText(v any, do func(string)) {
	switch v := v.(type) {
	case string:
		do(v)
	case []any:
		for _, item := range v {
			eachText(item, do)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			eachText(v[k], do)
		}
	}
}

// oneLine makes a title of a text: its first line, without control characters.
func oneLine(s string) string {
	const most = 200
	s, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	s = strings.TrimSpace(s)
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	if more {
		s += " …"
	}
	return s
}
