package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// A Request is the part of a request for a response that matters here.
type Request struct {
	Thread  string          // from a header; without one, from prompt_cache_key or user
	Model   string          // the model asked for
	Prompts []string        // the prompts, oldest first, without the context that Codex adds
	Context []string        // every text of a user or developer message, including Codex's own
	Outputs []string        // texts of the tool outputs since the last prompt, in order
	Schema  json.RawMessage // of text.format, nil if the answer may have any form
	Header  http.Header     // must not be changed
	Body    json.RawMessage // as received

	sessions []int // by output: the session of a command that still runs, or 0
	running  running
	tools    []tool
	plain    map[string]string // names of the schema's properties in structuredTool; nil without it
	api      api
	whole    bool // answer with one object, not a stream
	counted  bool // report usage in the stream
	aside    bool // not part of the conversation: a request for a title, for example
}

// An api is the format of a request and of its response.
type api int

const (
	responsesAPI api = iota
	messagesAPI
	chatAPI
	geminiAPI
)

// Prompt returns the last prompt, "" if there is none.
func (r *Request) Prompt() string {
	if len(r.Prompts) == 0 {
		return ""
	}
	return r.Prompts[len(r.Prompts)-1]
}

// message is one item of the input, with the fields that matter here.
type message struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Output  json.RawMessage `json:"output"`

	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// decode reads a request of the Responses API. Input items of unknown shape are skipped, since Codex may send
// more than is needed here.
func decode(header http.Header, body []byte) (*Request, error) {
	var in struct {
		Model  string          `json:"model"`
		Input  json.RawMessage `json:"input"`
		Cache  string          `json:"prompt_cache_key"`
		Stream *bool           `json:"stream"`
		Text   struct {
			Format struct {
				Type   string          `json:"type"`
				Schema json.RawMessage `json:"schema"`
			} `json:"format"`
		} `json:"text"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	if in.Stream != nil && !*in.Stream {
		return nil, errors.New("read request: stream is false, and only streams are served")
	}
	r := &Request{Thread: header.Get("Thread-Id"), Model: in.Model, Header: header, Body: body}
	if r.Thread == "" {
		r.Thread = in.Cache
	}
	if in.Text.Format.Type == "json_schema" && len(in.Text.Format.Schema) > 0 {
		r.Schema = in.Text.Format.Schema
	}
	var alone string
	var items []json.RawMessage
	switch {
	case json.Unmarshal(in.Input, &alone) == nil:
		r.Prompts, r.Context = []string{alone}, []string{alone}
	case json.Unmarshal(in.Input, &items) == nil:
		for _, item := range items {
			var m message
			if json.Unmarshal(item, &m) == nil {
				r.add(m)
			}
		}
	default:
		return nil, errors.New("read request: input must be a text or a list of items")
	}
	return r, nil
}

func (r *Request) add(m message) {
	switch {
	case m.Type == "function_call":
		r.running.began(m)
	case strings.HasSuffix(m.Type, "_output"):
		output := text(m.Output)
		if r.running.ended(m.CallID, output, r.Outputs) {
			break
		}
		r.running.note(m.CallID, output, len(r.Outputs))
		r.Outputs = append(r.Outputs, toolText(output))
		r.sessions = append(r.sessions, session(output))
	case m.Type != "" && m.Type != "message":
	case m.Role == "developer" || m.Role == "system":
		r.Context = append(r.Context, text(m.Content))
	case m.Role == "user":
		prompt := text(m.Content)
		r.Context = append(r.Context, prompt)
		if !isInjected(m.Content) {
			r.Prompts = append(r.Prompts, prompt)
			r.Outputs, r.sessions, r.running.left = nil, nil, nil
		}
	}
}

// text joins the texts of a content, which is a text or a list of parts.
func text(raw json.RawMessage) string {
	return strings.Join(parts(raw), "\n")
}

func parts(raw json.RawMessage) []string {
	var alone string
	if json.Unmarshal(raw, &alone) == nil {
		return []string{alone}
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		// Some tools return an object; its JSON then serves as the text.
		if len(raw) > 0 && raw[0] == '{' {
			return []string{string(raw)}
		}
		return nil
	}
	var texts []string
	for _, item := range list {
		var part struct {
			Text *string `json:"text"`
		}
		if json.Unmarshal(item, &part) == nil && part.Text != nil {
			texts = append(texts, *part.Text)
		}
	}
	return texts
}

// marks are the beginnings of the texts that Codex sends as user messages although no person wrote them.
var marks = []string{
	"# AGENTS.md instructions", "<environment_context>", "<user_instructions>", "<turn_aborted>",
	"<user_shell_command>", "<subagent_notification>", "<skill>", "<permissions instructions>", "<hook_prompt",
}

// isInjected reports whether all parts of a user message are Codex's own.
func isInjected(content json.RawMessage) bool {
	texts := parts(content)
	for _, t := range texts {
		own := false
		for _, mark := range marks {
			own = own || strings.HasPrefix(strings.TrimSpace(t), mark)
		}
		if !own {
			return false
		}
	}
	return len(texts) > 0
}

// toolText strips the lines that Codex puts before the output of a tool: they contain ids and times, so a text
// that quotes them would differ each time.
func toolText(t string) string {
	if head, rest, ok := strings.Cut(t, "\nOutput:\n"); ok && len(head) < 400 {
		for _, first := range []string{"Chunk ID:", "Exit code:", "Wall time:"} {
			if strings.HasPrefix(head, first) {
				t = rest
				break
			}
		}
	}
	return strings.TrimSpace(t)
}
