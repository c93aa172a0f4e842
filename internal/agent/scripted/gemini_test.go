package scripted

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// gemini returns a request of the Gemini API.
func gemini(t *testing.T, stream bool, more string, contents ...string) *Request {
	t.Helper()
	list := strings.Join(append([]string{`{"role":"user","parts":[{"text":"<session_context>today</session_context>"}]}`,
		`{"role":"user","parts":[{"text":"hello"}]}`}, contents...), ",")
	r, err := decodeGemini(http.Header{"Thread-Id": {"t"}}, []byte(`{"systemInstruction":{"role":"user","parts":[{"text":"You help."}]},
		"contents":[`+list+`]`+more+`}`), "m", stream)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const shellTool = `,"tools":[{"functionDeclarations":[{"name":"run_shell_command","parametersJsonSchema":{"type":"object",
	"properties":{"command":{"type":"string"}},"required":["command"]}},{"name":"mcp_lab_echo"}]}]`

func TestGeminiStream(t *testing.T) {
	sc := mustParse(t, everything)
	one := func(part string) string {
		return `data: {"candidates":[{"content":{"parts":[` + part +
			`],"role":"model"},"index":0}],"modelVersion":"m","responseId":"resp_1_1"}` + "\n\n"
	}
	want := one(`{"text":"why","thought":true}`) + one(`{"text":"a <b> & c"}`) +
		one(`{"functionCall":{"args":{"command":"ls"},"id":"call_1_1_3","name":"run_shell_command"}}`) +
		one(`{"functionCall":{"args":{"n":2},"id":"call_1_1_4","name":"mcp_lab_echo"}}`) +
		`data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],` +
		`"modelVersion":"m",` +
		`"responseId":"resp_1_1","usageMetadata":{"cachedContentTokenCount":2,"candidatesTokenCount":2,` +
		`"promptTokenCount":7,` +
		`"thoughtsTokenCount":1,"totalTokenCount":10}}` + "\n\n"
	r := gemini(t, true, shellTool)
	if diff := cmp.Diff([]string{"hello"}, r.Prompts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, show(respond(sc, r, never))); diff != "" {
		t.Error(diff)
	}
	r = gemini(t, false, shellTool, `{"role":"model","parts":[{"functionCall":{"name":"run_shell_command","args":{}}}]}`,
		`{"role":"user","parts":[{"functionResponse":{"name":"run_shell_command","response":{"output":"a file\n"}}},
			{"functionResponse":{"name":"x","response":{"error":"no"}}},{"text":"beside"}]}`)
	var got struct {
		Candidates []struct {
			Content struct{ Parts []struct{ Text string } }
		}
	}
	text := show(respond(sc, r, never))
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	said := ""
	for _, p := range got.Candidates[0].Content.Parts {
		said += p.Text
	}
	if said != "a file and no" {
		t.Errorf("the whole answer is %s", text)
	}
}

// TestGeminiServed sends a request with a schema outside the conversation.
func TestGeminiServed(t *testing.T) {
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	const asked = `{"contents":[{"role":"user","parts":[{"text":"who is next?"}]}],"generationConfig":{"responseJsonSchema":
		{"type":"object","properties":{"next":{"enum":["user"]}},"required":["next"]}}}`
	for path, want := range map[string]string{
		"generateContent":               `{\"next\":\"user\"}`,
		"streamGenerateContent?alt=sse": `"finishReason":"STOP"`,
		"countTokens":                   `{"totalTokens":100}`,
		"embedContent":                  "there is nothing at",
	} {
		res, err := c.Post(s.URL()+"/models/m:"+path, "application/json", strings.NewReader(asked))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s, %v", path, res.StatusCode, body, err)
		}
	}
	if _, err := decodeGemini(nil, []byte(`{"contents":[]}`), "m", true); err == nil {
		t.Error("a request without contents is read")
	}
}
