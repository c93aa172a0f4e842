package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/sys/jsonrpc"
)

// FuzzLines checks that any output of an agent is handled or ignored, that its events can be stored, and that each of
// its requests is answered once, as the protocol says.
func FuzzLines(f *testing.F) {
	for _, lines := range []string{
		`{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk",` +
			`"content":{"type":"text","text":"x"}}}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"c",` +
			`"kind":"edit","title":"t","rawInput":{"command":["a","b"]},` +
			`"content":[{"type":"diff","path":"/x","oldText":null,"newText":"y"},{"type":"content","content":{"type":"text",` +
			`"text":"z"}}],"locations":[{"path":"a"}]}}}` + "\n" +
			`{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call_update","toolCallId":"c",` +
			`"status":"completed","rawOutput":{"exitCode":1}}}}`,
		`{"method":"session/update","params":{"update":{"sessionUpdate":"plan","entries":[{"content":"a",` +
			`"status":"completed"},null,4]}}}`,
		`{"method":"session/update","params":{"update":{"sessionUpdate":"usage_update","used":-1,"size":1e400,` +
			`"_meta":{"usage":{"inputTokens":-5}}}}}`,
		`{"id":7,"method":"session/request_permission","params":{"toolCall":{"toolCallId":"c","kind":"execute",` +
			`"rawInput":{"command":"rm"}},"options":[{"optionId":"y","kind":"allow_once"},{"optionId":"n",` +
			`"kind":"reject_once"}]}}`,
		`{"id":{},"method":"session/request_permission","params":4}` + "\n" + `{"id":1,"result":null}` +
			"\nnull\n[]\n\x00\xff",
		`{"id":"é","method":"fs/read_text_file","params":{}}` + "\n" + `{"id":1e999,"method":"x"}`,
	} {
		f.Add([]byte(lines))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		for _, kind := range Kinds {
			r, w := io.Pipe()
			tk := newConversation(&setup{Setup: &host.Setup{Dir: "/ws"}, agent: &Agent{kind: kind}}, agent.Request{
				Ask: func(context.Context, agent.Question) (agent.Answer, error) { return agent.Answer{}, nil },
			}, func(e agent.Event) error {
				if _, err := json.Marshal(e); err != nil {
					t.Errorf("%+v is not kept: %v", e, err)
				}
				return nil
			})
			tk.ctx, tk.stop = context.WithCancelCause(t.Context())
			tk.conn, tk.live = jsonrpc.New(w, "2.0"), true
			go tk.conn.Pump()
			asked := 0
			for line := range bytes.SplitSeq(said, []byte("\n")) {
				var m jsonrpc.Message
				if json.Unmarshal(line, &m) == nil && m.IsRequest() {
					asked++
				}
				if err := tk.line(line, false); err != nil {
					t.Fatal(err)
				}
			}
			go func() {
				tk.asking.Wait()
				tk.conn.HangUp()
			}()
			answers := bufio.NewScanner(r)
			answers.Buffer(nil, 1<<24)
			for ; answers.Scan(); asked-- {
				var m jsonrpc.Message
				if json.Unmarshal(answers.Bytes(), &m) != nil || !m.IsResponse() || m.Version != "2.0" {
					t.Errorf("answered was %q", answers.Bytes())
				}
			}
			if asked != 0 || answers.Err() != nil {
				t.Errorf("%d requests have no answer: %v", asked, answers.Err())
			}
			tk.stop(nil)
		}
	})
}
