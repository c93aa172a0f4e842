package scripted

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// generate matches the paths of the Gemini API that name a model: answers, as events or one object, and token counts.
var generate = regexp.MustCompile(`^/v1(?:beta)?/models/([^/:]+):(generateContent|streamGenerateContent|countTokens)$`)

// A content is a message of one side of a conversation, in the format of the Gemini API.
type content struct {
	Role  string `json:"role"`
	Parts []struct {
		Text     *string `json:"text"`
		Thought  bool    `json:"thought"`
		Response *struct {
			Response json.RawMessage `json:"response"`
		} `json:"functionResponse"`
	} `json:"parts"`
}

// decodeGemini reads a request of the Gemini API. Parts of unknown shape are skipped.
func decodeGemini(header http.Header, body []byte, model string, stream bool) (*Request, error) {
	var in struct {
		Contents []content `json:"contents"`
		System   content   `json:"systemInstruction"`
		Tools    []struct {
			Functions []struct {
				tool
				Schema json.RawMessage `json:"parametersJsonSchema"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
		Config struct {
			JSONSchema json.RawMessage `json:"responseJsonSchema"`
			Schema     json.RawMessage `json:"responseSchema"`
		} `json:"generationConfig"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	if len(in.Contents) == 0 {
		return nil, fmt.Errorf("read request: contents are missing")
	}
	r := &Request{Thread: header.Get("Thread-Id"), Model: model, Header: header, Body: body, api: geminiAPI,
		whole: !stream}
	for _, t := range in.Tools {
		for _, f := range t.Functions {
			r.tools = append(r.tools, tool{f.Name, firstOf(f.Schema, f.Parameters)})
		}
	}
	r.Schema = firstOf(in.Config.JSONSchema, in.Config.Schema)
	r.aside = len(r.tools) == 0 // for example, which model should answer, or who speaks next
	for _, p := range in.System.Parts {
		if p.Text != nil {
			r.Context = append(r.Context, *p.Text)
		}
	}
	for _, c := range in.Contents {
		if c.Role != "model" {
			r.addContent(c)
		}
	}
	return r, nil
}

func firstOf(a, b json.RawMessage) json.RawMessage {
	if len(a) > 0 {
		return a
	}
	return b
}

// addContent adds a prompt, or the outputs of tools.
func (r *Request) addContent(c content) {
	var asked []string
	answered := false
	for _, p := range c.Parts {
		switch {
		case p.Response != nil:
			answered = true
			var of struct {
				Output *string `json:"output"`
				Error  *string `json:"error"`
			}
			said := string(p.Response.Response)
			if json.Unmarshal(p.Response.Response, &of) == nil && (of.Output != nil || of.Error != nil) {
				said = *cmp.Or(of.Output, of.Error)
			}
			r.Outputs = append(r.Outputs, strings.TrimSpace(said))
			r.sessions = append(r.sessions, 0)
		case p.Text == nil || p.Thought:
		default:
			r.Context = append(r.Context, *p.Text)
			if !strings.HasPrefix(strings.TrimSpace(*p.Text), "<session_context>") { // sent by the program itself
				asked = append(asked, *p.Text)
			}
		}
	}
	if len(asked) > 0 && !answered {
		r.Prompts = append(r.Prompts, strings.Join(asked, "\n"))
		r.Outputs, r.sessions = nil, nil
	}
}

// A geminiStream collects one response of the Gemini API: chunks of it, or all of it as one object.
type geminiStream struct {
	sent
	id      string
	request *Request
	parts   []any // of the whole response
}

func (s *geminiStream) response(parts []any, finish string, u *usage) object {
	candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	out := object{"responseId": s.id, "modelVersion": s.request.Model, "candidates": []any{candidate}}
	if u != nil {
		out["usageMetadata"] = object{"promptTokenCount": u.Input, "cachedContentTokenCount": u.Cached,
			"candidatesTokenCount": u.Output - u.Reasoning, "thoughtsTokenCount": u.Reasoning,
			"totalTokenCount": u.Input + u.Output}
	}
	return out
}

// part adds a part, streamed in pieces.
func (s *geminiStream) part(slow bool, pieces ...object) {
	for _, p := range pieces {
		s.parts = append(s.parts, p)
		if !s.request.whole {
			s.events = append(s.events, event{data: encode(s.response([]any{p}, "", nil)), slow: slow})
		}
	}
}

func (s *geminiStream) begin(usage) {}

func (s *geminiStream) message(text string) {
	for _, piece := range pieces(text) {
		s.part(true, object{"text": piece})
	}
}

func (s *geminiStream) reasoning(text string) {
	for _, piece := range pieces(text) {
		s.part(true, object{"text": piece, "thought": true})
	}
}

func (s *geminiStream) call(namespace, name string, arguments any, callID string) {
	name, arguments = s.request.asOffered(namespace, name, arguments, "run_shell_command")
	s.part(false, object{"functionCall": object{"id": callID, "name": name, "args": arguments}})
}

func (s *geminiStream) completed(u usage) { s.end("STOP", u) }

func (s *geminiStream) incomplete(reason string, u usage) {
	if reason == "max_output_tokens" {
		reason = "MAX_TOKENS"
	}
	s.end(reason, u)
}

func (s *geminiStream) end(finish string, u usage) {
	if s.request.whole {
		s.events = []event{{data: append(encode(s.response(s.parts, finish, &u)), '\n'), alone: true}}
		return
	}
	s.events = append(s.events, event{data: encode(s.response([]any{object{"text": ""}}, finish, &u))})
}

func (s *geminiStream) failed(code, message string) {
	broken := encode(object{"error": object{"code": http.StatusInternalServerError, "status": code, "message": message}})
	s.events = append(s.events, event{data: broken, alone: s.request.whole})
}
