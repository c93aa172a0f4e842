package model

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/plait-run/plait/internal/agent/gateway"
)

type object = map[string]any

// chat is the Chat Completions API.
type chat struct {
	parts bool         // the response comes in parts
	at    map[word]int // index of each call of a response, by the server's number
}

func (*chat) path() string { return "/chat/completions" }

func (*chat) key(h http.Header, token string) { h.Set("Authorization", "Bearer "+token) }

func (*chat) body(q query) map[string]any {
	var list []any
	if q.system != "" {
		list = append(list, object{"role": "system", "content": q.system})
	}
	for _, e := range q.entries {
		m := object{"role": e.Role, "content": e.Text}
		switch {
		case e.Role == byTool:
			m["tool_call_id"] = e.Call
		case len(e.Calls) > 0:
			var calls []any
			for _, c := range e.Calls {
				function := object{"name": c.Name, "arguments": c.Args}
				calls = append(calls, object{"id": c.ID, "type": "function", "function": function})
			}
			m["tool_calls"] = calls
			if e.Text == "" {
				m["content"] = nil
			}
			if q.fields[thoughts] != nil {
				m[thoughts] = e.Thought
			}
		}
		list = append(list, m)
	}
	body := object{"model": q.model, "messages": list, "stream_options": object{"include_usage": true}}
	var tools []any
	for _, t := range q.tools {
		tools = append(tools, object{"type": "function",
			"function": object{"name": t.name, "description": t.about, "parameters": t.schema()}})
	}
	if tools != nil {
		body["tools"] = tools
	}
	if q.schema != nil {
		body["response_format"] = object{"type": "json_schema", "json_schema": object{"name": "answer", "schema": q.schema}}
	}
	return body
}

// A chatChunk is a part of a response, or a whole one.
type chatChunk struct {
	refusedError
	Model   word `json:"model"`
	Choices []struct {
		refusedError
		Index   word         `json:"index"`
		Delta   *chatMessage `json:"delta"`
		Message *chatMessage `json:"message"` // of a whole response
		Finish  word         `json:"finish_reason"`
	} `json:"choices"`
}

type chatMessage struct {
	Content   content      `json:"content"`
	Refusal   content      `json:"refusal"`
	Thought   content      `json:"reasoning_content"`
	Reasoning content      `json:"reasoning"` // the same, on other servers
	Calls     []chatCall   `json:"tool_calls"`
	Function  chatFunction `json:"function_call"` // the only call, before there were several
}

// A chatCall is a part of a call.
type chatCall struct {
	Index    word         `json:"index"`
	ID       word         `json:"id"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      word  `json:"name"`
	Arguments input `json:"arguments"`
}

func (c *chat) read(data []byte, to *reply) error {
	var chunk chatChunk
	if err := decode(data, &chunk); err != nil {
		return err
	}
	if chunk.failed() {
		return serverErrorOf(0, data)
	}
	to.model = string(cmp.Or(chunk.Model, word(to.model)))
	to.used = gateway.Reported(data, to.used)
	for _, choice := range chunk.Choices {
		if choice.Index != "" && choice.Index != "0" { // another answer to the same request
			continue
		}
		if choice.failed() {
			return serverErrorOf(0, encode(choice.refusedError))
		}
		if choice.Delta != nil {
			c.add(*choice.Delta, to)
			c.parts = c.parts || len(to.text)+len(to.thought)+len(to.calls) > 0
		}
		if choice.Message != nil && !c.parts { // some servers repeat the whole with each part
			c.add(*choice.Message, to)
		}
		to.stop.ends(choice.Finish)
		break
	}
	return nil
}

// add adds a message, or a part of one.
func (c *chat) add(m chatMessage, to *reply) {
	thought := cmp.Or(m.Thought, m.Reasoning)
	to.think(thought.thought + thought.text)
	to.add(m.Content)
	to.add(m.Refusal)
	to.refused = to.refused || m.Refusal.text != ""
	for _, part := range m.Calls {
		c.call(part, to)
	}
	if len(m.Calls) == 0 && m.Function != (chatFunction{}) {
		c.call(chatCall{Function: m.Function}, to)
	}
}

// call adds a part of a call. If a server does not number them, each part with a name begins a new call, and so
// does one with another id if it numbers all of them alike.
func (c *chat) call(part chatCall, to *reply) {
	at, known := len(to.calls)-1, part.Function.Name == "" && len(to.calls) > 0
	if part.Index != "" {
		at, known = c.at[part.Index]
		known = known && (part.Function.Name == "" || part.ID == "" || string(part.ID) == to.calls[at].ID)
	}
	if !known {
		at = len(to.calls)
		to.calls = append(to.calls, call{})
		if c.at == nil {
			c.at = map[word]int{}
		}
		c.at[part.Index] = at
	}
	one := &to.calls[at]
	if one.ID == "" {
		one.ID = string(part.ID)
	}
	if one.Name == "" {
		one.Name = strings.TrimSpace(string(part.Function.Name))
	}
	one.Args += string(part.Function.Arguments)
}
