package model

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/plait-run/plait/internal/agent"
)

type object = map[string]any

// chat is the Chat Completions API.
type chat struct {
	finished bool
	at       map[int]int // index of each call of a response, by the server's number
}

func (*chat) path() string { return "/chat/completions" }

func (*chat) key(h http.Header, token string) { h.Set("Authorization", "Bearer "+token) }

func (c *chat) over() bool { return c.finished }

func (*chat) body(q query) map[string]any {
	list := []any{object{"role": "system", "content": q.system}}
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
	Model   string `json:"model"`
	Choices []struct {
		Delta   chatMessage `json:"delta"`
		Message chatMessage `json:"message"` // of a whole response
		Finish  string      `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Prompts    struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		Completions struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
}

type chatMessage struct {
	Content   string `json:"content"`
	Refusal   string `json:"refusal"`
	Thought   string `json:"reasoning_content"`
	Reasoning string `json:"reasoning"`
	Calls     []struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func (c *chat) read(data []byte, to *reply) error {
	var chunk chatChunk
	if json.Unmarshal(data, &chunk) != nil {
		return nil // it is logged; if it mattered, the response will be incomplete
	}
	if len(chunk.Error) > 0 && string(chunk.Error) != "null" {
		return serverErrorOf(0, data)
	}
	if chunk.Model != "" {
		to.model = chunk.Model
	}
	if u := chunk.Usage; u != nil { // some servers repeat it in each chunk: the last one counts
		to.used = agent.Usage{InputTokens: u.Prompt, CachedInputTokens: u.Prompts.Cached, OutputTokens: u.Completion,
			ReasoningTokens: u.Completions.Reasoning}
	}
	for _, choice := range chunk.Choices[:min(1, len(chunk.Choices))] {
		for _, m := range []chatMessage{choice.Delta, choice.Message} {
			to.text = append(append(to.text, m.Content...), m.Refusal...)
			to.refused = to.refused || m.Refusal != ""
			to.thought = append(append(to.thought, m.Thought...), m.Reasoning...)
			c.calls(m, to)
		}
		if choice.Finish != "" {
			c.finished, to.cut, to.refused = true, choice.Finish == "length", to.refused || choice.Finish == "content_filter"
		}
	}
	return nil
}

// calls adds parts of calls. If a server does not number them, each part with a name begins a new
// call.
func (c *chat) calls(m chatMessage, to *reply) {
	for _, part := range m.Calls {
		at := len(to.calls) - 1
		known := at >= 0 && part.Index == nil && part.Function.Name == ""
		if part.Index != nil {
			if i, ok := c.at[*part.Index]; ok {
				at, known = i, true
			}
		}
		if !known {
			at = len(to.calls)
			to.calls = append(to.calls, call{})
			if part.Index != nil {
				if c.at == nil {
					c.at = map[int]int{}
				}
				c.at[*part.Index] = at
			}
		}
		one := &to.calls[at]
		if one.ID == "" {
			one.ID = part.ID
		}
		if one.Name == "" {
			one.Name = strings.TrimSpace(part.Function.Name)
		}
		one.Args += part.Function.Arguments
	}
}
