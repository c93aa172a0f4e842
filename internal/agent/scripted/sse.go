package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// An event is one server-sent event. Its data is one line of JSON that repeats its type, as in the Responses
// API. Events of the Chat Completions API have no type.
type event struct {
	name  string
	data  []byte
	slow  bool // a slow step waits before it
	alone bool // not an event, but the whole body
}

// bytes returns the event's wire format.
func (e event) bytes() []byte {
	switch {
	case e.alone:
		return e.data
	case e.name == "":
		return fmt.Appendf(nil, "data: %s\n\n", e.data)
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", e.name, e.data)
}

type object = map[string]any

// A sent is the events of one response so far.
type sent struct{ events []event }

func (s *sent) made() []event    { return s.events }
func (s *sent) cutTo(events int) { s.events = s.events[:events] }

// emit adds an event that repeats its name.
func (s *sent) emit(name string, slow bool, fields object) {
	fields["type"] = name
	s.events = append(s.events, event{name: name, data: encode(fields), slow: slow})
}

// A stream collects one response of the Responses API.
type stream struct {
	sent
	id    string // of the response, and the prefix of its items' ids
	items int
}

func (s *stream) begin(usage) {
	s.emit("response.created", false, object{"response": object{"id": s.id, "status": "in_progress"}})
}

// message streams a text of the assistant in pieces.
func (s *stream) message(text string) {
	item := func(content ...any) object {
		return object{"type": "message", "id": s.itemID(), "role": "assistant", "content": append([]any{}, content...)}
	}
	s.added(item())
	for _, piece := range pieces(text) {
		s.emit("response.output_text.delta", true, object{"item_id": s.itemID(), "output_index": s.items,
			"content_index": 0, "delta": piece})
	}
	s.done(item(object{"type": "output_text", "text": text, "annotations": []any{}}))
}

// reasoning streams the summary of a thought in pieces.
func (s *stream) reasoning(text string) {
	item := func(summary ...any) object {
		return object{"type": "reasoning", "id": s.itemID(), "summary": append([]any{}, summary...),
			"encrypted_content": nil}
	}
	s.added(item())
	s.emit("response.reasoning_summary_part.added", false, object{"item_id": s.itemID(), "output_index": s.items,
		"summary_index": 0})
	for _, piece := range pieces(text) {
		s.emit("response.reasoning_summary_text.delta", true, object{"item_id": s.itemID(), "output_index": s.items,
			"summary_index": 0, "delta": piece})
	}
	s.done(item(object{"type": "summary_text", "text": text}))
}

// call calls a function tool, in a namespace unless that is "", or a tool whose input is plain text.
func (s *stream) call(namespace, name string, arguments any, callID string) {
	item := object{"type": "function_call", "id": s.itemID(), "name": name, "call_id": callID}
	if input, ok := arguments.(string); ok {
		item["type"], item["input"], item["status"] = "custom_tool_call", input, "completed"
	} else {
		item["arguments"] = string(encode(arguments))
	}
	if namespace != "" {
		item["namespace"] = namespace
	}
	s.added(item)
	s.done(item)
}

func (s *stream) added(item object) {
	s.emit("response.output_item.added", false, object{"output_index": s.items, "item": item})
}

func (s *stream) done(item object) {
	s.emit("response.output_item.done", false, object{"output_index": s.items, "item": item})
	s.items++
}

func (s *stream) itemID() string { return fmt.Sprintf("%s_item%d", s.id, s.items) }

func (s *stream) completed(u usage) {
	s.emit("response.completed", false,
		object{"response": object{"id": s.id, "status": "completed", "output": []any{}, "usage": u.object()}})
}

func (s *stream) incomplete(reason string, u usage) {
	s.emit("response.incomplete", false, object{"response": object{
		"id": s.id, "status": "incomplete", "output": []any{}, "incomplete_details": object{"reason": reason},
		"usage": u.object(),
	}})
}

func (s *stream) failed(code, message string) {
	s.emit("response.failed", false,
		object{"response": object{"id": s.id, "status": "failed", "error": object{"code": code, "message": message}}})
}

func (u usage) object() object {
	return object{
		"input_tokens":          u.Input,
		"input_tokens_details":  object{"cached_tokens": u.Cached},
		"output_tokens":         u.Output,
		"output_tokens_details": object{"reasoning_tokens": u.Reasoning},
		"total_tokens":          u.Input + u.Output,
	}
}

// maxPieces bounds the deltas of one text, so that a long text is not much slower than a short one.
const maxPieces = 100

// pieces cuts a text for streaming, between characters.
func pieces(text string) []string {
	size := max(24, len(text)/maxPieces+1)
	var out []string
	for len(text) > size {
		n := size
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		out = append(out, text[:n])
		text = text[n:]
	}
	return append(out, text)
}

// encode returns v as JSON on one line. v consists only of texts, numbers, lists and objects.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
