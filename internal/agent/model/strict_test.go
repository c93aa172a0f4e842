package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A said is a message of a request, of either API.
type said struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	ID      string          `json:"tool_call_id"`
	Thought *string         `json:"reasoning_content"`
	Calls   []struct {
		ID       string `json:"id"`
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// A part is a content block of the Messages API.
type part struct {
	Type, Text, ID, Name string
	Input                json.RawMessage
	Result               string `json:"tool_use_id"`
	Content              string
}

// A request is one that a server got.
type request struct {
	api, raw string
	fields   map[string]json.RawMessage
	messages []said
}

func requestOf(api, raw string) (request, error) {
	r := request{api: api, raw: raw}
	if err := json.Unmarshal([]byte(raw), &r.fields); err != nil {
		return r, err
	}
	return r, json.Unmarshal(r.fields["messages"], &r.messages)
}

func (r request) has(field string) bool { return r.fields[field] != nil }

// parts returns the blocks of a message.
func (m said) parts() (list []part, err error) { return list, json.Unmarshal(m.Content, &list) }

var (
	goodName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	noText   = regexp.MustCompile(`(?i)\\u(0000|d[89a-f])`)
)

// badEscape reports whether JSON has an escape of what is no character.
func badEscape(data string) bool { return noText.MatchString(strings.ReplaceAll(data, `\\`, "")) }

// wellFormed returns what strict servers would refuse in a conversation, nil if nothing.
func (r request) wellFormed() error {
	switch {
	case !utf8.ValidString(r.raw):
		return errors.New("it is not UTF-8")
	case badEscape(r.raw):
		return errors.New("it has a character that is none")
	case r.api == Messages:
		return r.wellFormedMessages()
	}
	list := r.messages
	if len(list) > 0 && list[0].Role == "system" {
		list = list[1:]
	}
	ids := map[string]bool{}
	var open []string // ids of calls that need a result
	last := byAssistant
	for i, m := range list {
		var text string
		if err := json.Unmarshal(m.Content, &text); err != nil || m.Content == nil {
			return fmt.Errorf("message %d: content %s: %v", i, m.Content, err)
		}
		if blank := strings.TrimSpace(text) == ""; blank && (string(m.Content) != "null" || len(m.Calls) == 0) {
			return fmt.Errorf("message %d has no text", i)
		}
		switch {
		case m.Role == byTool && (len(open) == 0 || open[0] != m.ID):
			return fmt.Errorf("message %d has the result of %q, want %q", i, m.ID, open)
		case m.Role == byTool:
			open = open[1:]
			last = byTool
			continue
		case len(open) > 0:
			return fmt.Errorf("before message %d, results of %q are missing", i, open)
		case m.Role == last, i == 0 && m.Role != byUser:
			return fmt.Errorf("message %d is by %s too", i, m.Role)
		}
		last = m.Role
		for _, c := range m.Calls {
			var o map[string]any
			if err := json.Unmarshal([]byte(c.Function.Arguments), &o); err != nil || o == nil ||
				badEscape(c.Function.Arguments) {
				return fmt.Errorf("message %d has the arguments %q: %v", i, c.Function.Arguments, err)
			}
			if c.ID == "" || ids[c.ID] || !goodName.MatchString(c.Function.Name) {
				return fmt.Errorf("message %d has the call %+v", i, c)
			}
			ids[c.ID] = true
			open = append(open, c.ID)
		}
	}
	if len(open) > 0 || last == byAssistant {
		return fmt.Errorf("the end is by %s; without results: %q", last, open)
	}
	return nil
}

func (r request) wellFormedMessages() error {
	ids := map[string]bool{}
	var open []string
	last := byAssistant
	for i, m := range r.messages {
		parts, err := m.parts()
		if err != nil || len(parts) == 0 || m.Role == last {
			return fmt.Errorf("message %d by %s: %s: %v", i, m.Role, m.Content, err)
		}
		last = m.Role
		for at, p := range parts {
			switch {
			case len(open) > 0 && (p.Type != "tool_result" || m.Role != byUser):
				return fmt.Errorf("in message %d, results of %q are missing", i, open)
			case p.Type == "tool_result" && (len(open) == 0 || open[0] != p.Result || strings.TrimSpace(p.Content) == ""):
				return fmt.Errorf("message %d has the result %+v, want one of %q", i, p, open)
			case p.Type == "tool_result":
				open = open[1:]
			case p.Type == "text" && strings.TrimSpace(p.Text) == "":
				return fmt.Errorf("message %d has a blank text", i)
			case p.Type == "thinking" && at == len(parts)-1:
				return fmt.Errorf("message %d ends with a thought", i)
			}
		}
		for _, p := range parts {
			if p.Type != "tool_use" {
				continue
			}
			var o map[string]any
			if err := json.Unmarshal(p.Input, &o); err != nil || o == nil {
				return fmt.Errorf("message %d has the input %s: %v", i, p.Input, err)
			}
			if p.ID == "" || ids[p.ID] || !goodName.MatchString(p.Name) || m.Role != byAssistant {
				return fmt.Errorf("message %d has the call %+v", i, p)
			}
			ids[p.ID] = true
			open = append(open, p.ID)
		}
	}
	if len(open) > 0 || last == byAssistant {
		return fmt.Errorf("the end is by %s; without results: %q", last, open)
	}
	return nil
}
