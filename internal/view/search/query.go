package search

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// A Query is what a person looks for.
type Query struct {
	// TaskFilter says of which tasks: All, Flow and Word. Since is the time of a step; Limit is the number of hits.
	view.TaskFilter
	Agent string // only steps by this agent, "" for any

	match string // in the language of FTS5
}

// filters are the names that begin a filter of a query.
var filters = []string{"flow", "state", "agent", "file", "since"}

// states are the words that the filter of that name accepts.
var states = view.StateWords(view.Created, view.Working, view.InputRequired, view.Canceled)

// Parse reads what a person typed: words, "a phrase", the beginning of a word with a star, and filters: flow:NAME,
// state:STATE, agent:NAME, file:PATH, since:TIME. A step must have all of them. The error says what is wrong.
func Parse(typed string, now time.Time) (q Query, err error) {
	typed = strings.ToValidUTF8(typed, " ")
	var match []string
	for {
		if typed = strings.TrimLeftFunc(typed, unicode.IsSpace); typed == "" {
			break
		}
		var key string
		for _, name := range filters {
			if rest, ok := strings.CutPrefix(typed, name+":"); ok {
				key, typed = name, rest
			}
		}
		word, prefix, rest := next(typed)
		typed = rest
		switch key {
		case "", "file":
			term, ok := quote(word, prefix)
			if !ok && key != "" {
				return q, errors.New("file: wants a path, or a part of one: file:internal/app.go")
			}
			if ok && key != "" {
				term = "file : " + term
			}
			if ok {
				match = append(match, term)
			}
		default:
			if err := q.filter(key, word, now); err != nil {
				return q, err
			}
		}
	}
	if len(match) == 0 {
		return q, errors.New("say what to look for: words, or file:PATH; plait ls lists tasks by flow, state and time")
	}
	q.match = strings.Join(match, " AND ")
	return q, nil
}

// next splits off a word or a phrase, and reports whether only its beginning was typed.
func next(typed string) (word string, prefix bool, rest string) {
	if inside, ok := strings.CutPrefix(typed, `"`); ok {
		word, rest, _ = strings.Cut(inside, `"`)
		rest, prefix = strings.CutPrefix(rest, "*")
		return word, prefix, rest
	}
	end := strings.IndexFunc(typed, unicode.IsSpace)
	if end < 0 {
		end = len(typed)
	}
	word, prefix = strings.CutSuffix(typed[:end], "*")
	return word, prefix, typed[end:]
}

// filter sets a filter that is not one of words.
func (q *Query) filter(key, value string, now time.Time) (err error) {
	if value == "" {
		return fmt.Errorf("%s: wants a value, without a space before it", key)
	}
	switch key {
	case "flow":
		q.Flow = value
	case "agent":
		q.Agent = value
	case "state":
		word := strings.ReplaceAll(strings.ToLower(value), " ", "-")
		if !slices.Contains(states, word) {
			return fmt.Errorf("state:%s: use queued, running, needs-you, done, failed or cancelled", text.Safe(value))
		}
		q.Word = word
	case "since":
		if q.Since, _, err = view.Span(value, "", now); err != nil {
			return fmt.Errorf("since: %w", err)
		}
	}
	return nil
}

// quote returns words as a phrase in the language of FTS5. ok is false if no letter or digit is among them.
func quote(words string, prefix bool) (term string, ok bool) {
	if !strings.ContainsFunc(words, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
		return "", false
	}
	term = `"` + strings.ReplaceAll(spaced(words), `"`, `""`) + `"`
	if prefix {
		term += "*"
	}
	return term, true
}
