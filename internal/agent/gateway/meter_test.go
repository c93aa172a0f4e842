package gateway

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
)

func lines(events ...string) string { return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n" }

// TestCountsWhateverTheChunks feeds responses of each API in pieces of every size.
func TestCountsWhateverTheChunks(t *testing.T) {
	hundred := agent.Usage{InputTokens: 100, CachedInputTokens: 10, OutputTokens: 20}
	reasoned := hundred
	reasoned.ReasoningTokens = 5
	long := "data: " + strings.Repeat("x", maxData+1) + "\n"
	completed := `{"type":"response.completed","response":{"id":"r","usage":{"input_tokens":100,` +
		`"input_tokens_details":{"cached_tokens":10},` +
		`"output_tokens":20,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":120}}}`
	for name, c := range map[string]struct {
		text      string
		want      agent.Usage
		estimated bool
	}{
		"messages":         {stream, hundred, false},
		"with a long line": {long + stream, hundred, false},
		"whole message": {`{"type":"message","usage":{"input_tokens":5,"cache_creation_input_tokens":2,` +
			`"output_tokens":3}}`, agent.Usage{InputTokens: 7, OutputTokens: 3}, false},
		"cut message": {stream[:strings.Index(stream, "event: message_delta")],
			agent.Usage{InputTokens: 100, CachedInputTokens: 10, OutputTokens: 2}, true},
		"responses": {"event: response.created\n" + lines(`{"type":"response.created","response":{"usage":null}}`,
			completed), reasoned, false},
		"responses, cut": {lines(`{"type":"response.created","response":{"usage":null}}`,
			`{"type":"response.output_text.delta","delta":"x"}`), agent.Usage{InputTokens: 25, OutputTokens: 2}, true},
		"without a line end": {strings.TrimSpace("data: " + completed), reasoned, false},
		"whole response": {`{"object":"response","output":[],"usage":{"input_tokens":100,` +
			`"input_tokens_details":{"cached_tokens":10},"output_tokens":20}}`, hundred, false},
		"pretty": {"\n{\n  \"object\": \"chat.completion\",\n  \"usage\": {\n\"prompt_tokens\": 100, " +
			"\"completion_tokens\": 20, \"prompt_tokens_details\": {\"cached_tokens\": 10}}\n}", hundred, false},
		"chat": {lines(`{"choices":[{"delta":{"content":"x"}}],"usage":null}`,
			`{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":10},`+
				`"completion_tokens_details":{"reasoning_tokens":5}}}`, "[DONE]"), reasoned, false},
		"gemini": {lines(`{"candidates":[{"content":{"parts":[{"text":"x"}]}}],"usageMetadata":{"promptTokenCount":100,`+
			`"candidatesTokenCount":1}}`,
			`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":95,"toolUsePromptTokenCount":5,`+
				`"cachedContentTokenCount":10,`+
				`"candidatesTokenCount":15,"thoughtsTokenCount":5,"totalTokenCount":120}}`), reasoned, false},
		"gemini, cut": {lines(`{"candidates":[{"content":{"parts":[]}}],"usageMetadata":{"promptTokenCount":7,` +
			`"candidatesTokenCount":3}}`),
			agent.Usage{InputTokens: 7, OutputTokens: 3}, true},
		"gemini, whole": {"{\n \"candidates\": [{\"finishReason\": \"STOP\"}],\n \"usageMetadata\": {\"promptTokenCount\": " +
			"100, " +
			"\"cachedContentTokenCount\": 10, \"candidatesTokenCount\": 20}\n}", hundred, false},
		"chat without usage": {lines(`{"choices":[{"delta":{"content":"x"}}]}`, `{"choices":[{"delta":{"content":"y"}}]}`),
			agent.Usage{InputTokens: 25, OutputTokens: 2}, true},
		"whole without usage": {`{"choices":[{"message":{"content":"12345678"}}]}`,
			agent.Usage{InputTokens: 25, OutputTokens: 12}, true},
		"odd counts": {lines(`{"usage":{"prompt_tokens":100.0,"completion_tokens":"20",` +
			`"prompt_tokens_details":{"cached_tokens":"10.0"},` +
			`"completion_tokens_details":[],"input_tokens":null,"output_tokens":-3,"cache_creation_input_tokens":{}},` +
			`"message":"x"}`), hundred, false},
		"odd counts of gemini": {lines(`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":100.0,` +
			`"cachedContentTokenCount":"10",` +
			`"candidatesTokenCount":20,"thoughtsTokenCount":"some"}}`), hundred, false},
		"no counts": {lines(`{"choices":[],"usage":"none"}`), agent.Usage{InputTokens: 25, OutputTokens: 1}, true},
		"two names": {lines(`{"usage":{"prompt_tokens":100,"input_tokens":100,"completion_tokens":20,"output_tokens":20,` +
			`"cache_read_input_tokens":10,` +
			`"prompt_tokens_details":{"cached_tokens":10}}}`), hundred, false},
		"broken":  {"data: {\"usage\"\n", agent.Usage{InputTokens: 25, OutputTokens: 1}, true},
		"nothing": {"", agent.Usage{}, false},
	} {
		for size := max(1, len(c.text)/1000); size <= max(1, len(c.text)); size = size*3 + 1 {
			var sum agent.Usage
			m := &meter{add: func(u agent.Usage) {
				sum.InputTokens += u.InputTokens
				sum.CachedInputTokens += u.CachedInputTokens
				sum.OutputTokens += u.OutputTokens
				sum.ReasoningTokens += u.ReasoningTokens
			}}
			for at := 0; at < len(c.text); at += size {
				m.Write([]byte(c.text[at:min(at+size, len(c.text))]))
			}
			got, estimated := m.end(100)
			if diff := cmp.Diff(c.want, got); diff != "" || estimated != c.estimated || sum != got {
				t.Errorf("%s, in pieces of %d: estimated %v, told %+v (-want +got):\n%s", name, size, estimated, sum, diff)
			}
		}
	}
}

func FuzzMeter(f *testing.F) {
	f.Add([]byte(stream), 7)
	f.Add([]byte(`{"usage":{"input_tokens":-1}}`), 3)
	f.Add([]byte(`{"usage":{"input_tokens":1e300,"output_tokens":"NaN","prompt_tokens":"0x1p-2"}}`), 3)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		if size < 1 {
			return
		}
		count := func(size int) agent.Usage {
			m := &meter{add: func(agent.Usage) {}}
			for at := 0; at < len(data); at += size {
				m.Write(data[at:min(at+size, len(data))])
			}
			u, _ := m.end(10)
			return u
		}
		got, whole := count(size), count(max(1, len(data)))
		if got != whole || got.InputTokens < 0 || got.OutputTokens < 0 {
			t.Errorf("in pieces of %d: %+v, at once %+v", size, got, whole)
		}
	})
}

// TestLastEvent checks that a stream is complete once its last event has arrived, even if its reader does not wait.
func TestLastEvent(t *testing.T) {
	for _, c := range []struct {
		text string
		last bool
	}{
		{stream, false},
		{stream + lines(`{"type":"message_stop"}`), true},
		{lines(`{"choices":[]}`, "[DONE]"), true},
		{lines(`{"choices":[{"delta":{"content":"message_stop [DONE]"}}]}`), false},
		{lines(`{"type":"response.completed","response":{}}`), true},
		{lines(`{"type":"response.output_text.delta","delta":"response.completed"}`), false},
		{`data: {"type":"response.completed"`, false},
		{"data: message_stop\n\n", false},
		{`{"type":"message_stop"}`, false},
	} {
		for _, size := range []int{1, 7, len(c.text)} {
			m := &meter{add: func(agent.Usage) {}}
			for at := 0; at < len(c.text); at += size {
				m.Write([]byte(c.text[at:min(at+size, len(c.text))]))
			}
			if m.last != c.last {
				t.Errorf("%q, in pieces of %d: last %t", c.text, size, m.last)
			}
		}
	}
}
