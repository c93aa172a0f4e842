package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
)

const (
	messagesVersion = "2023-06-01"
	maxAnswer       = 16384 // tokens, unless the definition says max_tokens
)

// messages is Anthropic's Messages API.
type messages struct {
	blocks map[word]*block // by the server's number
	last   *block          // the last one that began
	stop   word            // counts once the message has ended
}

// A block is a part of a message.
type block struct {
	kept  object // a thought that the server wants back
	call  int    // index of the call, -1 if it is none
	given bool   // the call's arguments came when it began
	aside bool   // it is about the server's own tools
}

func (*messages) path() string { return "/messages" }

func (*messages) key(h http.Header, token string) {
	h.Set("X-Api-Key", token)
	h.Set("Anthropic-Version", messagesVersion)
}

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
		content = append(content, q.blocks(e)...)
	}
	if n := len(content); n > 0 && !q.omits(cacheMark) { // cache everything up to here
		if last, ok := content[n-1].(object); ok {
			last["cache_control"] = object{"type": "ephemeral"}
		}
	}
	flush()
	body := object{"model": q.model, "messages": list, "max_tokens": maxAnswer}
	if q.system != "" {
		body[system] = q.system
	}
	if n, ok := q.fields["max_tokens"]; ok {
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

// blocks returns an entry as content blocks.
func (q query) blocks(e entry) []any {
	if e.Role == byTool {
		return []any{object{"type": "tool_result", "tool_use_id": e.Call, "content": e.Text, "is_error": e.Wrong}}
	}
	var list []any
	if !q.omits(signature) {
		for _, kept := range e.Kept {
			list = append(list, kept)
		}
	}
	if e.Text != "" {
		list = append(list, object{"type": "text", "text": e.Text})
	}
	for _, c := range e.Calls {
		list = append(list, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": json.RawMessage(c.Args)})
	}
	return list
}

// A messagesEvent is an event of a stream, or a whole message.
type messagesEvent struct {
	refusedError
	Type    word            `json:"type"`
	Index   word            `json:"index"`
	Message json.RawMessage `json:"message"`
	Block   json.RawMessage `json:"content_block"`
	Delta   json.RawMessage `json:"delta"`
}

// A messagesDelta is a part of a block, or of a message.
type messagesDelta struct {
	Type      word    `json:"type"`
	Text      content `json:"text"`
	JSON      input   `json:"partial_json"`
	Thinking  content `json:"thinking"`
	Signature word    `json:"signature"`
	Stop      word    `json:"stop_reason"`
}

func (m *messages) read(data []byte, to *reply) error {
	var e messagesEvent
	if err := decode(data, &e); err != nil {
		return err
	}
	if e.Type == "error" || e.failed() {
		return serverErrorOf(0, data)
	}
	to.used = gateway.Reported(data, to.used)
	switch e.Type {
	case "message":
		err := m.message(data, to)
		to.stop = m.stop
		return err
	case "message_start":
		return m.message(e.Message, to)
	case "content_block_start":
		return m.begin(e.Index, e.Block, to)
	case "content_block_delta":
		return m.grow(e.Index, e.Delta, to)
	case "content_block_stop":
		m.close(e.Index, to)
	case "message_delta":
		var d messagesDelta
		if err := decode(e.Delta, &d); err != nil {
			return err
		}
		m.stop.ends(d.Stop)
	case "message_stop":
		to.stop = m.stop
	case "":
		if e.Block != nil || e.Delta != nil {
			return errors.New("an event has no type")
		}
	} // others may be ignored, according to the API
	return nil
}

// message reads a message: a whole one, or what is known of it at the beginning of a stream.
func (m *messages) message(data json.RawMessage, to *reply) error {
	var whole struct {
		Model   word            `json:"model"`
		Content json.RawMessage `json:"content"`
		Stop    word            `json:"stop_reason"`
	}
	if err := decode(data, &whole); err != nil {
		return err
	}
	if text := whole.Content; len(text) > 0 && text[0] == '"' { // instead of blocks
		whole.Content = encode([]any{object{"type": "text", "text": text}})
	}
	var list []json.RawMessage
	if err := decode(whole.Content, &list); err != nil {
		return err
	}
	to.model = string(cmp.Or(whole.Model, word(to.model)))
	for i, one := range list {
		at := word(strconv.Itoa(i))
		if err := m.begin(at, one, to); err != nil {
			return err
		}
		m.close(at, to)
	}
	m.stop.ends(whole.Stop)
	return nil
}

// begin starts a block.
func (m *messages) begin(at word, data json.RawMessage, to *reply) error {
	var b struct {
		Type     word    `json:"type"`
		Text     content `json:"text"`
		Thinking content `json:"thinking"`
		ID       word    `json:"id"`
		Name     word    `json:"name"`
		Input    input   `json:"input"`
	}
	if err := decode(data, &b); err != nil {
		return err
	}
	m.last = &block{call: -1}
	if m.blocks == nil {
		m.blocks = map[word]*block{}
	}
	m.blocks[at] = m.last
	switch b.Type {
	case "text":
		if len(to.text) > 0 {
			to.text = append(to.text, "\n\n"...)
		}
		to.add(b.Text)
	case "tool_use":
		m.last.call, m.last.given = len(to.calls), true
		to.calls = append(to.calls, call{ID: string(b.ID), Name: string(b.Name), Args: string(b.Input)})
	case "thinking", "redacted_thinking":
		to.think(b.Thinking.text)
		return json.Unmarshal(data, &m.last.kept)
	case "server_tool_use", "mcp_tool_use":
		m.last.aside = true
	default:
		if m.last.aside = strings.HasSuffix(string(b.Type), "tool_result"); !m.last.aside {
			return fmt.Errorf("a block has the unknown type %.100q", b.Type)
		}
	}
	return nil
}

// grow adds a part to a block.
func (m *messages) grow(at word, data json.RawMessage, to *reply) error {
	var d messagesDelta
	if err := decode(data, &d); err != nil {
		return err
	}
	switch d.Type {
	case "text_delta", "input_json_delta", "thinking_delta", "signature_delta", "":
	case "citations_delta": // says where the text is from
		return nil
	default:
		return fmt.Errorf("a part of a block has the unknown type %.100q", d.Type)
	}
	b := m.block(at)
	if b.aside {
		return nil
	}
	to.add(d.Text)
	to.think(d.Thinking.text)
	if d.JSON != "" {
		if b.call < 0 {
			return errors.New("arguments belong to no call")
		}
		one := &to.calls[b.call]
		if b.given { // in parts after all
			one.Args, b.given = "", false
		}
		one.Args += string(d.JSON)
	}
	if b.kept != nil {
		b.append("thinking", d.Thinking.text)
		b.append("signature", string(d.Signature))
	}
	return nil
}

// close ends a block.
func (m *messages) close(at word, to *reply) {
	if b := m.block(at); b.kept != nil {
		to.kept = append(to.kept, encode(b.kept))
		b.kept = nil
	}
}

// block returns the block of an event: some servers do not number them, or do not begin those of text.
func (m *messages) block(at word) *block {
	b := m.blocks[at]
	if at == "" {
		b = m.last
	}
	if b == nil {
		return &block{call: -1}
	}
	return b
}

// append appends to a text of a thought.
func (b *block) append(field, text string) {
	if text != "" {
		was, _ := b.kept[field].(string)
		b.kept[field] = was + text
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
