package gateway

import (
	"bytes"
	"encoding/json"

	"github.com/plait-run/plait/internal/agent"
)

// maxData limits what is parsed for usage, in bytes: a line of a stream, or a response that is not a stream.
const maxData = 8 << 20

// A meter counts the usage of a response of any of the four APIs as it passes: a stream of server-sent events,
// or one object. Each count in it is for the whole response so far, so the largest is right.
type meter struct {
	add    func(agent.Usage) // called with the increase
	line   []byte
	skip   bool  // the line is too long
	begun  bool  // something has arrived
	whole  bool  // it is one object
	events int64 // of a stream
	bytes  int64
	used   agent.Usage
	said   bool // the final usage was reported
	last   bool // the event that ends a stream has arrived
}

func (m *meter) Write(p []byte) (int, error) {
	m.bytes += int64(len(p))
	if start := bytes.TrimLeft(p, " \t\r\n"); !m.begun && len(start) > 0 {
		m.begun, m.whole = true, start[0] == '{' || start[0] == '['
	}
	if m.whole {
		m.gather(p)
		return len(p), nil
	}
	for rest := p; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte{'\n'})
		m.gather(part)
		if ended {
			m.event()
		}
		rest = after
	}
	return len(p), nil
}

// gather appends to the line.
func (m *meter) gather(part []byte) {
	if m.skip = m.skip || len(m.line)+len(part) > maxData; !m.skip {
		m.line = append(m.line, part...)
	}
}

// event reads the line, which is complete.
func (m *meter) event() {
	data, ok := bytes.CutPrefix(bytes.TrimSpace(m.line), []byte("data:"))
	if ok || m.skip {
		m.events++
	}
	if ok && !m.skip {
		m.read(data)
		m.last = m.last || endsStream(bytes.TrimSpace(data))
	}
	m.line, m.skip = m.line[:0], false
}

// endsStream reports whether an event is the last of a stream. An agent that has it may hang up immediately.
func endsStream(data []byte) bool {
	if bytes.Equal(data, []byte("[DONE]")) {
		return true
	}
	if !bytes.Contains(data, []byte("message_stop")) && !bytes.Contains(data, []byte("response.")) {
		return false
	}
	var e struct{ Type string }
	if json.Unmarshal(data, &e) != nil {
		return false
	}
	switch e.Type {
	case "message_stop", "response.completed", "response.incomplete", "response.failed":
		return true
	}
	return false
}

// end must be called when the response is over. It returns the usage, and whether that is an estimate: for a response
// that did not report it, or broke off before it did. asked is the length of the request.
func (m *meter) end(asked int64) (used agent.Usage, estimated bool) {
	if m.whole && !m.skip {
		m.read(m.line)
	} else if !m.whole && len(m.line) > 0 {
		m.event()
	}
	if m.said || !m.begun {
		return m.used, false
	}
	guess := agent.Usage{InputTokens: m.used.InputTokens, OutputTokens: m.events}
	if guess.InputTokens == 0 {
		guess.InputTokens = max(0, asked) / 4
	}
	if m.whole {
		guess.OutputTokens = m.bytes / 4
	}
	m.raise(guess)
	return m.used, true
}

// tokens are the counts of the three APIs other than Gemini.
type tokens struct {
	Input   int64 `json:"input_tokens"`
	Read    int64 `json:"cache_read_input_tokens"`
	Created int64 `json:"cache_creation_input_tokens"`
	Output  int64 `json:"output_tokens"`
	In      struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Out struct {
		Reasoning int64 `json:"reasoning_tokens"`
		Thinking  int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`

	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Prompted   struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Completed struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (t *tokens) usage() agent.Usage {
	return agent.Usage{
		InputTokens:       t.Input + t.Read + t.Created + t.Prompt,
		CachedInputTokens: t.Read + t.In.Cached + t.Prompted.Cached,
		OutputTokens:      t.Output + t.Completion,
		ReasoningTokens:   t.Out.Reasoning + t.Out.Thinking + t.Completed.Reasoning,
	}
}

// read reads the usage from one event or a whole response.
func (m *meter) read(data []byte) {
	if bytes.Contains(data, []byte(`"usageMetadata"`)) {
		m.readGemini(data)
		return
	}
	if !bytes.Contains(data, []byte(`"usage"`)) {
		return
	}
	var e struct {
		Usage    *tokens
		Message  struct{ Usage *tokens } // at the beginning of a message: not final
		Response struct{ Usage *tokens }
	}
	if json.Unmarshal(data, &e) != nil {
		return
	}
	for _, t := range []*tokens{e.Usage, e.Message.Usage, e.Response.Usage} {
		if t != nil {
			m.said = m.said || t != e.Message.Usage
			m.raise(t.usage())
		}
	}
}

// readGemini reads the usage from an event or a response of the Gemini API: each reports the usage so far.
func (m *meter) readGemini(data []byte) {
	var e struct {
		Usage struct {
			Prompt   int64 `json:"promptTokenCount"`
			ByTools  int64 `json:"toolUsePromptTokenCount"`
			Cached   int64 `json:"cachedContentTokenCount"`
			Answer   int64 `json:"candidatesTokenCount"`
			Thoughts int64 `json:"thoughtsTokenCount"`
		} `json:"usageMetadata"`
		Candidates []struct {
			Finish string `json:"finishReason"`
		} `json:"candidates"`
	}
	if json.Unmarshal(data, &e) != nil {
		return
	}
	for _, c := range e.Candidates {
		m.said = m.said || c.Finish != ""
	}
	u := e.Usage
	m.raise(agent.Usage{InputTokens: u.Prompt + u.ByTools, CachedInputTokens: u.Cached, OutputTokens: u.Answer + u.Thoughts,
		ReasoningTokens: u.Thoughts})
}

// raise makes the usage at least u.
func (m *meter) raise(u agent.Usage) {
	was := m.used
	m.used = agent.Usage{
		InputTokens:       max(was.InputTokens, u.InputTokens),
		CachedInputTokens: max(was.CachedInputTokens, u.CachedInputTokens),
		OutputTokens:      max(was.OutputTokens, u.OutputTokens),
		ReasoningTokens:   max(was.ReasoningTokens, u.ReasoningTokens),
	}
	m.add(agent.Usage{
		InputTokens:       m.used.InputTokens - was.InputTokens,
		CachedInputTokens: m.used.CachedInputTokens - was.CachedInputTokens,
		OutputTokens:      m.used.OutputTokens - was.OutputTokens,
		ReasoningTokens:   m.used.ReasoningTokens - was.ReasoningTokens,
	})
}
