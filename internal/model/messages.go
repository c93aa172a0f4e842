package model

import (
	"encoding/json"
	"net/http"

	"github.com/plait-run/plait/internal/agent"
)

const (
	messagesVersion = "2023-06-01"
	maxAnswer       = 16384 // tokens, unless the definition says max_tokens
)

// messages is Anthropic's Messages API.
type messages struct {
	stopped bool
	open    object // the current block, if it is a thought to keep
}

func (*messages) path() string { return "/messages" }

func (*messages) key(h http.Header, token string) {
	h.Set("X-Api-Key", token)
	h.Set("Anthropic-Version", messagesVersion)
}

func (m *messages) over() bool { return m.stopped }

func (*messages) body(q query) map[string]any {
	var list []object
	var content []any
	role := ""
	flush := func() {
		if len(content) > 0 {
			list = append(list, object{"role": role, "content": content})
		}
		content = nil
	}
	for _, e := range q.entries {
		by := byUser
		if e.Role == byAssistant {
			by = byAssistant
		}
		if by != role { // consecutive entries of one role are one message
			flush()
			role = by
		}
		content = append(content, blocks(e)...)
	}
	if n := len(content); n > 0 { // cache everything up to here
		if last, ok := content[n-1].(object); ok {
			last["cache_control"] = object{"type": "ephemeral"}
		}
	}
	flush()
	body := object{"model": q.model, "system": q.system, "messages": list, "max_tokens": maxAnswer}
	if n, ok := q.extra["max_tokens"]; ok {
		body["max_tokens"] = n
	}
	var tools []any
	for _, t := range q.tools {
		tools = append(tools, object{"name": t.name, "description": t.about, "input_schema": t.schema()})
	}
	if tools != nil {
		body["tools"] = tools
	}
	if q.schema != nil {
		body["output_config"] = object{"format": object{"type": "json_schema", "schema": q.schema}}
	}
	return body
}

// blocks returns an entry as content blocks, without empty texts.
func blocks(e entry) []any {
	if e.Role == byTool {
		return []any{object{"type": "tool_result", "tool_use_id": e.Call, "content": e.Text, "is_error": e.Wrong}}
	}
	var list []any
	for _, kept := range e.Kept {
		list = append(list, kept)
	}
	if e.Text != "" {
		list = append(list, object{"type": "text", "text": e.Text})
	}
	for _, c := range e.Calls {
		input := json.RawMessage("{}")
		if c.Args != "" && arguments(c.Args) != nil {
			input = json.RawMessage(c.Args)
		}
		list = append(list, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": input})
	}
	return list
}

type messagesUsage struct {
	Input   *int64 `json:"input_tokens"`
	Created int64  `json:"cache_creation_input_tokens"`
	Cached  int64  `json:"cache_read_input_tokens"`
	Output  int64  `json:"output_tokens"`
}

type messagesEvent struct {
	refusedError
	Type    string `json:"type"`
	Message struct {
		Model string        `json:"model"`
		Usage messagesUsage `json:"usage"`
	} `json:"message"`
	Block json.RawMessage `json:"content_block"`
	Delta struct {
		Text      string `json:"text"`
		JSON      string `json:"partial_json"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
		Stop      string `json:"stop_reason"`
	} `json:"delta"`
	Usage messagesUsage `json:"usage"`
}

func (m *messages) read(data []byte, to *reply) error {
	var e messagesEvent
	if json.Unmarshal(data, &e) != nil {
		return nil // it is logged; if it mattered, the response will be incomplete
	}
	switch e.Type {
	case "error":
		return serverErrorOf(0, data)
	case "message_start":
		if e.Message.Model != "" {
			to.model = e.Message.Model
		}
		u := e.Message.Usage
		to.used.CachedInputTokens, to.used.InputTokens = u.Cached, u.Created+u.Cached
		if u.Input != nil {
			to.used.InputTokens += *u.Input
		}
		to.used.OutputTokens = u.Output
	case "content_block_start":
		m.begin(e.Block, to)
	case "content_block_delta":
		to.text = append(to.text, e.Delta.Text...)
		to.thought = append(to.thought, e.Delta.Thinking...)
		if n := len(to.calls); n > 0 && e.Delta.JSON != "" {
			to.calls[n-1].Args += e.Delta.JSON
		}
		if m.open != nil {
			m.grow("thinking", e.Delta.Thinking)
			m.grow("signature", e.Delta.Signature)
		}
	case "content_block_stop":
		if m.open != nil {
			to.kept = append(to.kept, encode(m.open))
			m.open = nil
		}
	case "message_delta":
		to.used.OutputTokens = max(to.used.OutputTokens, e.Usage.Output) // cumulative
		to.cut, to.refused = e.Delta.Stop == "max_tokens", e.Delta.Stop == "refusal"
	case "message_stop":
		m.stopped = true
	}
	return nil
}

// begin starts a block.
func (m *messages) begin(block json.RawMessage, to *reply) {
	var b struct{ Type, Text, ID, Name string }
	if json.Unmarshal(block, &b) != nil {
		return
	}
	switch b.Type {
	case "text":
		if len(to.text) > 0 {
			to.text = append(to.text, "\n\n"...)
		}
		to.text = append(to.text, b.Text...)
	case "tool_use":
		to.calls = append(to.calls, call{ID: b.ID, Name: b.Name})
	case "thinking", "redacted_thinking":
		json.Unmarshal(block, &m.open) // it was parsed before
	}
}

// grow appends to a text of the current block.
func (m *messages) grow(field, text string) {
	if text != "" {
		was, _ := m.open[field].(string)
		m.open[field] = was + text
	}
}

// addUsage adds the usage of two requests.
func addUsage(a, b agent.Usage) agent.Usage {
	a.InputTokens += b.InputTokens
	a.CachedInputTokens += b.CachedInputTokens
	a.OutputTokens += b.OutputTokens
	a.ReasoningTokens += b.ReasoningTokens
	return a
}
