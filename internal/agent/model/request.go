package model

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A query is a request to a model, independent of the API.
type query struct {
	model   string
	system  string
	entries []entry
	tools   []tool
	schema  json.RawMessage // of the answer, or nil
	fields  map[string]any  // further ones, such as temperature; null leaves a field out
}

// Parts of a request that fields can name although they are no fields of it.
const (
	system    = "system"            // as a message or a field of its own; left out, it begins the first prompt
	cacheMark = "cache_control"     // Messages: what to cache
	signature = "signature"         // Messages: thoughts, each of which has one
	thoughts  = "reasoning_content" // Chat: thoughts, left out unless the server wants them
)

// omits reports whether a field or a part is left out.
func (q query) omits(name string) bool {
	value, ok := q.fields[name]
	return ok && value == nil
}

// body returns the request. A definition can leave out any field, and say how the answer is sent.
func (q query) body(d dialect) map[string]any {
	if q.omits(system) {
		q.entries = append([]entry{{Role: byUser, Text: q.system}}, q.entries...)
		q.system = ""
	}
	q.entries = sendable(q.entries)
	body := d.body(q)
	body["stream"] = true
	for name, value := range q.fields {
		_, set := body[name]
		switch {
		case value == nil:
			delete(body, name)
		case !set && name != thoughts, name == "stream", name == "stream_options":
			body[name] = value
		}
	}
	if body["stream"] != true {
		delete(body, "stream_options")
	}
	return body
}

// What servers say about parts that they refuse or miss, and about the length of an answer.
var (
	partRefused = []struct {
		part string
		said *regexp.Regexp
	}{
		{cacheMark, regexp.MustCompile(`cache_control`)},
		{signature, regexp.MustCompile(`(?i)signature|thinking\W{1,3}block|redacted_thinking|tag 'thinking'`)},
		{system, regexp.MustCompile(`(?i)system\W{1,3}(role|message|prompt|instruction)|['"]system['"]|roles are supported|` +
			`developer instruction`)},
	}
	thoughtsMissing = regexp.MustCompile(thoughts)
	answerLimit     = rarely("max_(?:completion_)?tokens.{0,80}?" +
		"(?:>|<=|at most|less than or equal to|maximum of) ?[`'\"]?(\\d+)")
	// Of two numbers the difference is what is left for the answer.
	answerRest = []func() *regexp.Regexp{
		rarely(`max_(?:completion_)?tokens.{0,60}?(?P<prompt>\d+) \+ \d+ > (?P<most>\d+)`),
		rarely(`maximum context length is (?P<most>\d+).{0,120}?\((?P<prompt>\d+) (?:tokens )?in the messages`),
	}
)

// leastAnswer is the number of tokens from which on a shorter answer is worth asking for.
const leastAnswer = 256

// answerMost returns how many tokens an answer may have according to a refusal, 0 if that is not what it is about.
func answerMost(refusal string) int {
	for _, rest := range answerRest {
		r := rest()
		if m := r.FindStringSubmatch(refusal); m != nil {
			most, _ := strconv.Atoi(m[r.SubexpIndex("most")])     // a number that is too large
			prompt, _ := strconv.Atoi(m[r.SubexpIndex("prompt")]) // is none
			if most-prompt >= leastAnswer {
				return most - prompt
			}
			return 0
		}
	}
	if m := answerLimit().FindStringSubmatch(refusal); m != nil {
		n, _ := strconv.Atoi(m[1])
		return n
	}
	return 0
}

// otherName has the names of fields with two of them.
var otherName = map[string]string{"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}

// without returns what to change in the fields of a request that a server refuses for something that it can do
// without: nil if it names nothing like that, or if that is left out already.
func (q query) without(refusal string, d dialect) map[string]any {
	if thoughtsMissing.MatchString(refusal) && q.fields[thoughts] == nil {
		return map[string]any{thoughts: true}
	}
	for _, p := range partRefused {
		if p.said.MatchString(refusal) && !q.omits(p.part) && q.has(p.part, d) {
			return map[string]any{p.part: nil}
		}
	}
	body := q.body(d)
	most := answerMost(refusal)
	for field := range otherName {
		if set, ok := body[field]; ok && most > 0 {
			if set == most {
				return nil
			}
			return map[string]any{field: most}
		}
	}
	field := named(refusal, slices.Collect(maps.Keys(body)))
	change := map[string]any{field: nil}
	switch other := otherName[field]; {
	case field == "":
		return nil
	case other != "" && strings.Contains(refusal, other):
		change[other] = body[field]
	case field == "max_tokens" && d.path() == (&messages{}).path():
		return nil
	}
	return change
}

// has reports whether a request has a part.
func (q query) has(part string, d dialect) bool {
	switch part {
	case signature:
		return slices.ContainsFunc(q.entries, func(e entry) bool { return len(e.Kept) > 0 })
	case cacheMark:
		return d.path() == (&messages{}).path()
	}
	return true
}

// needed are the fields that are never left out unless the definition says so.
var needed = []string{"model", "messages", "tools", "response_format", "output_config"}

// named returns the first field that a refusal names, "" for none. A name that is also an ordinary word counts only
// if it is written as a name.
func named(refusal string, fields []string) string {
	first, at := "", len(refusal)
	for _, f := range fields {
		name := `\b` + regexp.QuoteMeta(f) + `\b`
		if !strings.Contains(f, "_") {
			name = "(?:['\"`/:\\[] ?" + name + "|" + name + "(?:['\"`:]| (?:is|are|does|param)))"
		}
		if found := regexp.MustCompile(name).FindStringIndex(refusal); found != nil && found[0] < at &&
			!slices.Contains(needed, f) {
			first, at = f, found[0]
		}
	}
	return first
}
