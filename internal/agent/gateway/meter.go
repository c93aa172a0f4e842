package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"strconv"

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

// A count is a number of tokens: a number or a string with one, without its fraction. Anything else is none.
type count int64

func (c *count) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseFloat(string(bytes.Trim(data, `"`)), 64)
	if err == nil && n >= 0 && n <= math.MaxInt32 {
		*c = count(n)
	}
	return nil
}

// tokens are the counts of the three APIs other than Gemini. Some servers report by the names of two of them.
type tokens struct {
	Input   count `json:"input_tokens"`
	Read    count `json:"cache_read_input_tokens"`
	Created count `json:"cache_creation_input_tokens"`
	Output  count `json:"output_tokens"`
	In      struct {
		Cached count `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Out struct {
		Reasoning count `json:"reasoning_tokens"`
		Thinking  count `json:"thinking_tokens"`
	} `json:"output_tokens_details"`

	Prompt     count `json:"prompt_tokens"`
	Completion count `json:"completion_tokens"`
	Prompted   struct {
		Cached count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Completed struct {
		Reasoning count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (t *tokens) usage() agent.Usage {
	return agent.Usage{
		InputTokens:       int64(cmp.Or(t.Prompt, t.Input+t.Read+t.Created)),
		CachedInputTokens: int64(max(t.Read, t.In.Cached, t.Prompted.Cached)),
		OutputTokens:      int64(max(t.Output, t.Completion)),
		ReasoningTokens:   int64(max(t.Out.Reasoning, t.Out.Thinking, t.Completed.Reasoning)),
	}
}

// parse decodes what can be decoded of data: a field of another JSON type than expected stays empty. It reports
// whether data is JSON.
func parse(data []byte, v any) bool {
	err := json.Unmarshal(data, v)
	var mistyped *json.UnmarshalTypeError
	return err == nil || errors.As(err, &mistyped)
}

// read reads the usage from one event or a whole response.
func (m *meter) read(data []byte) {
	if bytes.Contains(data, []byte(`"usageMetadata"`)) {
		m.readGemini(data)
		return
	}
	if used, final := reported(data); used != (agent.Usage{}) {
		m.said = m.said || final
		m.raise(used)
	}
}

// Reported returns the usage that an event of a stream, or a whole response, reports, but not less than was.
func Reported(data []byte, was agent.Usage) agent.Usage {
	used, _ := reported(data)
	return larger(was, used)
}

// reported reads the usage from an event or a response of an API other than Gemini, and whether it is final.
func reported(data []byte) (used agent.Usage, final bool) {
	var e struct {
		Usage    *tokens
		Message  struct{ Usage *tokens } // at the beginning of a message: not final
		Response struct{ Usage *tokens }
	}
	if !bytes.Contains(data, []byte(`"usage"`)) || !parse(data, &e) {
		return used, false
	}
	for _, t := range []*tokens{e.Usage, e.Message.Usage, e.Response.Usage} {
		if t != nil && *t != (tokens{}) { // a count of nothing, or one that cannot be read, says nothing
			final = final || t != e.Message.Usage
			used = larger(used, t.usage())
		}
	}
	return used, final
}

// readGemini reads the usage from an event or a response of the Gemini API: each reports the usage so far.
func (m *meter) readGemini(data []byte) {
	var e struct {
		Usage struct {
			Prompt   count `json:"promptTokenCount"`
			ByTools  count `json:"toolUsePromptTokenCount"`
			Cached   count `json:"cachedContentTokenCount"`
			Answer   count `json:"candidatesTokenCount"`
			Thoughts count `json:"thoughtsTokenCount"`
		} `json:"usageMetadata"`
		Candidates []struct {
			Finish string `json:"finishReason"`
		} `json:"candidates"`
	}
	if !parse(data, &e) {
		return
	}
	for _, c := range e.Candidates {
		m.said = m.said || c.Finish != ""
	}
	u := e.Usage
	m.raise(agent.Usage{InputTokens: int64(u.Prompt + u.ByTools), CachedInputTokens: int64(u.Cached),
		OutputTokens: int64(u.Answer + u.Thoughts), ReasoningTokens: int64(u.Thoughts)})
}

// raise makes the usage at least u.
func (m *meter) raise(u agent.Usage) {
	was := m.used
	m.used = larger(was, u)
	m.add(agent.Usage{
		InputTokens:       m.used.InputTokens - was.InputTokens,
		CachedInputTokens: m.used.CachedInputTokens - was.CachedInputTokens,
		OutputTokens:      m.used.OutputTokens - was.OutputTokens,
		ReasoningTokens:   m.used.ReasoningTokens - was.ReasoningTokens,
	})
}

// larger returns the larger of each count.
func larger(a, b agent.Usage) agent.Usage {
	return agent.Usage{
		InputTokens:       max(a.InputTokens, b.InputTokens),
		CachedInputTokens: max(a.CachedInputTokens, b.CachedInputTokens),
		OutputTokens:      max(a.OutputTokens, b.OutputTokens),
		ReasoningTokens:   max(a.ReasoningTokens, b.ReasoningTokens),
	}
}
