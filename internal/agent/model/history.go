package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What servers require of a conversation, whatever a model, a command or an interrupted attempt left in it: each call
// has a name, an id of its own, an object as its arguments and one result, right after it; users and assistants take
// turns; no text is blank. A session stays as it was written, so what an older version wrote is repaired as well.

// sendable returns a conversation as it is sent.
func sendable(entries []entry) []entry {
	var out []entry
	ids := map[string]bool{}
	for i, e := range entries {
		e.Text, e.Thought = clean(e.Text), clean(e.Thought)
		if e.Role == byTool || e.Role == byAssistant && e.Text == "" && len(e.Calls) == 0 {
			continue // a result comes with its call
		}
		if e.Role == byUser {
			e.Text = cmp.Or(e.Text, nothing)
		}
		var results []entry
		e.Calls, results = withResults(e.Calls, entries[i+1:], ids)
		if n := len(out); n > 0 && out[n-1].Role == e.Role {
			e.Text = strings.TrimSpace(out[n-1].Text + "\n\n" + e.Text)
			e.Kept = slices.Concat(out[n-1].Kept, e.Kept)
			out = out[:n-1]
		}
		out = append(append(out, e), results...)
	}
	return out
}

// withResults returns the calls of a message as they are sent, and the result of each, from the entries after the
// message. ids has the ids of earlier calls.
func withResults(calls []call, after []entry, ids map[string]bool) (now []call, out []entry) {
	if next := slices.IndexFunc(after, func(e entry) bool { return e.Role == byAssistant }); next >= 0 {
		after = after[:next]
	}
	used := map[int]bool{}
	for _, c := range calls {
		result := entry{Role: byTool, Text: "This was interrupted. Whether it had an effect is not known.", Wrong: true}
		for i, e := range after {
			if e.Role == byTool && e.Call == c.ID && !used[i] {
				used[i], result = true, e
				break
			}
		}
		c = call{ID: ownID(clean(c.ID), ids), Name: nameOf(c.Name), Args: objectOf(c.Args)}
		result.Call, result.Text = c.ID, cmp.Or(clean(result.Text), nothing)
		now, out = append(now, c), append(out, result)
	}
	return now, out
}

// nothing stands for a blank text.
const nothing = "[nothing]"

// clean returns a text without what servers cannot read, "" if it is blank.
func clean(text string) string {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// ownID returns the id of a call, or another one if it has none or an earlier call has the same. Some servers accept
// only letters and digits, nine of them.
func ownID(id string, ids map[string]bool) string {
	for n := len(ids); id == "" || ids[id]; n++ {
		id = fmt.Sprintf("call%05d", n)
	}
	ids[id] = true
	return id
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// nameOf returns the name of a tool that a model called, whether there is one or not.
func nameOf(name string) string {
	name = notInNames.ReplaceAllString(name, "_")
	return cmp.Or(name[:min(len(name), 64)], "unknown")
}

var (
	escaped   = strings.NewReplacer(`\\`, `\\`, `\u0000`, `\ufffd`)
	surrogate = regexp.MustCompile(`(?i)\\ud[89a-f]`)
)

// objectOf returns the arguments of a call: as the model wrote them, or {} if they are no object.
func objectOf(args string) string {
	args = escaped.Replace(clean(args))
	var o map[string]any
	if json.Unmarshal([]byte(args), &o) != nil || o == nil { // a number may be too large for many servers
		return "{}"
	}
	if !surrogate.MatchString(args) {
		return args
	}
	in := json.NewDecoder(strings.NewReader(args)) // it replaces half a pair, which is no character
	in.UseNumber()
	_ = in.Decode(&o) // it was just parsed
	return strings.TrimSpace(string(encode(o)))
}
