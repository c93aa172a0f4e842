package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// decodeMessages reads a request of the Messages API, which Claude Code makes. Parts of unknown shape
// are skipped.
func decodeMessages(header http.Header, body []byte) (*Request, error) {
	var in struct {
		Model  string          `json:"model"`
		System json.RawMessage `json:"system"`
		Tools  []struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"input_schema"`
		} `json:"tools"`
		Stream bool `json:"stream"`
		Output struct {
			Format struct {
				Type   string          `json:"type"`
				Schema json.RawMessage `json:"schema"`
			} `json:"format"`
		} `json:"output_config"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	if !in.Stream {
		return nil, errors.New("read request: stream is false, and only streams are served")
	}
	r := &Request{Thread: header.Get("X-Claude-Code-Session-Id"), Model: in.Model, Header: header, Body: body,
		api: messagesAPI, Context: []string{text(in.System)}, aside: len(in.Tools) == 0}
	for _, t := range in.Tools {
		r.tools = append(r.tools, tool{t.Name, t.Schema})
	}
	if f := in.Output.Format; f.Type == "json_schema" && len(f.Schema) > 0 {
		r.Schema, r.aside = f.Schema, false
	}
	for _, m := range in.Messages {
		if m.Role == "user" {
			r.addUser(m.Content)
		}
	}
	for _, t := range r.tools {
		if t.Name == structuredTool {
			r.Schema, r.plain = structured(t.Parameters)
		}
	}
	return r, nil
}

// addUser adds a message of a user: a prompt, or outputs of tools. A text next to an output is no prompt.
func (r *Request) addUser(content json.RawMessage) {
	type part struct {
		Type    string          `json:"type"`
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
	}
	var list []part
	if json.Unmarshal(content, &list) != nil {
		list = []part{{Type: "text", Text: text(content)}}
	}
	var asked []string
	answered := false
	for _, p := range list {
		switch {
		case p.Type == "tool_result":
			answered = true
			r.Outputs = append(r.Outputs, strings.TrimSpace(text(p.Content)))
			r.sessions = append(r.sessions, 0)
		case p.Type != "text":
		case strings.HasPrefix(strings.TrimSpace(p.Text), "<system-reminder>"): // sent by the program itself
			r.Context = append(r.Context, p.Text)
		default:
			r.Context = append(r.Context, p.Text)
			asked = append(asked, p.Text)
		}
	}
	if len(asked) > 0 && !answered {
		r.Prompts = append(r.Prompts, strings.Join(asked, "\n"))
		r.Outputs, r.sessions = nil, nil
	}
}

// A messageStream collects one response of the Messages API.
type messageStream struct {
	sent
	id      string
	request *Request
	blocks  int
	tools   bool // a tool was called
}

func (s *messageStream) begin(u usage) {
	s.emit("message_start", false, object{"message": object{
		"id": s.id, "type": "message", "role": "assistant", "model": s.request.Model, "content": []any{}, "stop_reason": nil,
		"stop_sequence": nil, "usage": object{"input_tokens": u.Input - u.Cached, "cache_read_input_tokens": u.Cached,
			"cache_creation_input_tokens": 0, "output_tokens": 1},
	}})
}

// block streams one block of content in pieces.
func (s *messageStream) block(start object, kind, field string, pieces ...string) {
	s.emit("content_block_start", false, object{"index": s.blocks, "content_block": start})
	for _, piece := range pieces {
		s.emit("content_block_delta", true, object{"index": s.blocks, "delta": object{"type": kind, field: piece}})
	}
	s.emit("content_block_stop", false, object{"index": s.blocks})
	s.blocks++
}

func (s *messageStream) message(text string) {
	s.block(object{"type": "text", "text": ""}, "text_delta", "text", pieces(text)...)
}

func (s *messageStream) reasoning(text string) {
	s.block(object{"type": "thinking", "thinking": "", "signature": "scripted"}, "thinking_delta", "thinking",
		pieces(text)...)
}

// call calls a tool. Claude Code's tool for commands is Bash.
func (s *messageStream) call(namespace, name string, arguments any, callID string) {
	name, arguments = s.request.asOffered(namespace, name, arguments, "Bash")
	s.tools = true
	s.block(object{"type": "tool_use", "id": "toolu_" + callID, "name": name, "input": object{}}, "input_json_delta",
		"partial_json", string(encode(arguments)))
}

func (s *messageStream) completed(u usage) {
	reason := "end_turn"
	if s.tools {
		reason = "tool_use"
	}
	s.end(reason, u)
}

func (s *messageStream) incomplete(reason string, u usage) {
	if reason == "max_output_tokens" {
		reason = "max_tokens"
	}
	s.end(reason, u)
}

func (s *messageStream) end(reason string, u usage) {
	s.emit("message_delta", false, object{"delta": object{"stop_reason": reason, "stop_sequence": nil},
		"usage": object{"output_tokens": u.Output}})
	s.emit("message_stop", false, object{})
}

func (s *messageStream) failed(code, message string) {
	s.emit("error", false, object{"error": object{"type": code, "message": message}})
}

// unified converts a patch of apply_patch to a unified diff. The hunks of such a patch have no line numbers: git
// locates them by their lines.
func unified(patch string) string {
	var b strings.Builder
	var hunk []string
	added := false
	flush := func() {
		if len(hunk) == 0 {
			return
		}
		before, after := 0, 0
		for _, line := range hunk {
			if line[0] != '+' {
				before++
			}
			if line[0] != '-' {
				after++
			}
		}
		from := 2 // not 1, which git takes for the beginning of the file
		if added {
			from = 0
		}
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n%s\n", from, before, max(from, 1), after, strings.Join(hunk, "\n"))
		hunk = nil
	}
	for line := range strings.Lines(patch) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "*** Add File: "):
			flush()
			added = true
			fmt.Fprintf(&b, "--- /dev/null\n+++ %s\n", strings.TrimPrefix(line, "*** Add File: "))
		case strings.HasPrefix(line, "*** Update File: "):
			flush()
			added = false
			name := strings.TrimPrefix(line, "*** Update File: ")
			fmt.Fprintf(&b, "--- %s\n+++ %s\n", name, name)
		case strings.HasPrefix(line, "@@"):
			flush()
		case line == "" || line[0] != ' ' && line[0] != '+' && line[0] != '-':
		default:
			hunk = append(hunk, line)
		}
	}
	flush()
	return b.String()
}
