package scripted

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// decodeChat reads a request of the Chat Completions API, which most model servers and most agents support.
// Parts of unknown shape are skipped.
func decodeChat(header http.Header, body []byte) (*Request, error) {
	var in struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Function tool `json:"function"`
		} `json:"tools"`
		Format struct {
			Type   string `json:"type"`
			Schema struct {
				Schema json.RawMessage `json:"schema"`
			} `json:"json_schema"`
		} `json:"response_format"`
		StreamOptions struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
		User string `json:"user"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	if len(in.Messages) == 0 {
		return nil, fmt.Errorf("read request: messages are missing")
	}
	r := &Request{Thread: cmp.Or(header.Get("Thread-Id"), in.User), Model: in.Model, Header: header, Body: body,
		api: chatAPI, whole: !in.Stream, counted: in.StreamOptions.Usage}
	for _, t := range in.Tools {
		r.tools = append(r.tools, t.Function)
	}
	if in.Format.Type == "json_schema" && len(in.Format.Schema.Schema) > 0 {
		r.Schema = in.Format.Schema.Schema
	}
	r.aside = len(in.Tools) == 0 && r.Schema == nil
	for _, m := range in.Messages {
		switch m.Role {
		case "system", "developer":
			r.Context = append(r.Context, text(m.Content))
		case "user":
			r.addUser(m.Content)
		case "tool":
			r.Outputs = append(r.Outputs, strings.TrimSpace(text(m.Content)))
			r.sessions = append(r.sessions, 0)
		}
	}
	return r, nil
}

// A chatStream collects one response of the Chat Completions API: chunks of it, or all of it as one object.
type chatStream struct {
	sent
	id      string
	request *Request

	// The whole response so far.
	said, thought strings.Builder
	calls         []any
}

// chunk streams one change of the answer.
func (s *chatStream) chunk(slow bool, delta object, finish any) {
	s.put(slow, object{"choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}})
}

// put streams a chunk.
func (s *chatStream) put(slow bool, fields object) {
	if s.request.whole {
		return
	}
	fields["id"], fields["object"] = s.id, "chat.completion.chunk"
	fields["created"], fields["model"] = created, s.request.Model
	s.events = append(s.events, event{data: encode(fields), slow: slow})
}

// created is the creation time of every response, fixed so that responses do not differ: 2026-01-01.
const created = 1767225600

func (s *chatStream) begin(usage) { s.chunk(false, object{"role": "assistant", "content": ""}, nil) }

func (s *chatStream) message(text string) {
	if s.said.Len() > 0 { // an answer has only one text
		text = "\n\n" + text
	}
	s.said.WriteString(text)
	for _, piece := range pieces(text) {
		s.chunk(true, object{"content": piece}, nil)
	}
}

func (s *chatStream) reasoning(text string) {
	s.thought.WriteString(text)
	for _, piece := range pieces(text) {
		s.chunk(true, object{"reasoning_content": piece}, nil)
	}
}

func (s *chatStream) call(namespace, name string, arguments any, callID string) {
	name, arguments = s.request.asOffered(namespace, name, arguments, "bash")
	at, text := len(s.calls), string(encode(arguments))
	call := func(arguments string) object {
		return object{"id": callID, "type": "function", "function": object{"name": name, "arguments": arguments}}
	}
	s.calls = append(s.calls, call(text))
	first := call("")
	first["index"] = at
	s.chunk(false, object{"tool_calls": []any{first}}, nil)
	for _, piece := range pieces(text) {
		s.chunk(false, object{"tool_calls": []any{object{"index": at, "function": object{"arguments": piece}}}}, nil)
	}
}

func (s *chatStream) completed(u usage) {
	if len(s.calls) > 0 {
		s.end("tool_calls", u)
		return
	}
	s.end("stop", u)
}

func (s *chatStream) incomplete(reason string, u usage) {
	if reason == "max_output_tokens" {
		reason = "length"
	}
	s.end(reason, u)
}

func (s *chatStream) end(finish string, u usage) {
	count := object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     object{"cached_tokens": u.Cached},
		"completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
	if s.request.whole {
		message := object{"role": "assistant", "content": s.said.String()}
		if s.thought.Len() > 0 {
			message["reasoning_content"] = s.thought.String()
		}
		if len(s.calls) > 0 {
			message["tool_calls"] = s.calls
		}
		s.alone(object{"id": s.id, "object": "chat.completion", "created": created, "model": s.request.Model, "usage": count,
			"choices": []any{object{"index": 0, "message": message, "finish_reason": finish}}})
		return
	}
	s.chunk(false, object{}, finish)
	if s.request.counted {
		s.put(false, object{"choices": []any{}, "usage": count})
	}
	s.events = append(s.events, event{data: []byte("[DONE]")})
}

func (s *chatStream) failed(code, message string) {
	broken := object{"error": object{"code": code, "type": "server_error", "message": message}}
	if s.request.whole {
		s.alone(broken)
		return
	}
	s.events = append(s.events, event{data: encode(broken)})
}

// alone responds with one object.
func (s *chatStream) alone(v object) {
	s.events = append(s.events, event{data: append(encode(v), '\n'), alone: true})
}
