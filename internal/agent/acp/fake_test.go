package acp

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/sys/jsonrpc"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

// fakeArg is the first argument that turns the test binary into an agent of the protocol.
const fakeArg = "fake-acp"

// fakeLine returns the command line of a fake agent: mode is what it does, text what it says.
func fakeLine(mode, text string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err) // there is no test binary to test with
	}
	return []string{self, fakeArg, mode, base64.StdEncoding.EncodeToString([]byte(text))}
}

// A fakeAgent is the agent's end of the protocol.
type fakeAgent struct {
	mode, text string
	in         *bufio.Scanner
	set        string // the mode that was set
}

// fakeMain is the fake agent. It returns the exit code.
func fakeMain(args []string) int {
	said, err := base64.StdEncoding.DecodeString(args[1])
	if err != nil || args[0] == "never" {
		return 7
	}
	f := &fakeAgent{mode: args[0], text: string(said), in: bufio.NewScanner(os.Stdin)}
	f.in.Buffer(nil, 64<<20)
	if f.mode == "stubborn" {
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	}
	for f.in.Scan() {
		var m jsonrpc.Message
		if json.Unmarshal(f.in.Bytes(), &m) == nil && m.IsRequest() {
			if code := f.serve(m); code >= 0 {
				return code
			}
		}
	}
	switch f.mode {
	case "stubborn":
		time.Sleep(time.Minute)
	case "late":
		f.say("{}")
	}
	return 0
}

// serve answers a request. It returns the exit code, -1 to continue.
func (f *fakeAgent) serve(m jsonrpc.Message) int {
	switch m.Method {
	case "initialize":
		v := 1
		if f.mode == "version" {
			v = 2
		}
		f.say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%d,"agentCapabilities":{"loadSession":true}}}`, m.ID, v)
	case "session/new":
		if f.mode == "login" {
			f.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"Authentication required"}}`, m.ID)
			break
		}
		f.say(`{"jsonrpc":"2.0","id":%s,"result":{"sessionId":"s1"}}`, m.ID)
	case "session/load":
		if f.mode == "forgets" {
			f.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such session"}}`, m.ID)
			break
		}
		f.chunk("what was said before")
		f.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	case "session/set_mode":
		var p struct {
			ModeID string `json:"modeId"`
		}
		json.Unmarshal(m.Params, &p)
		f.set += p.ModeID
		if f.mode == "immodest" {
			f.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such mode"}}`, m.ID)
			break
		}
		f.say(`{"jsonrpc":"2.0","id":%s,"result":null}`, m.ID)
	case "session/prompt":
		if f.mode == "full" {
			f.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"the prompt is too long"}}`, m.ID)
			break
		}
		if code := f.prompt(); code >= 0 {
			return code
		}
		stop := "end_turn"
		switch f.mode {
		case "paused":
			stop = "pause_turn"
		case "refusal", "max_tokens":
			stop = f.mode
		}
		f.say(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"%s"}}`, m.ID, stop)
	}
	return -1
}

func (f *fakeAgent) say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// update sends a session update.
func (f *fakeAgent) update(update string) {
	f.say(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":%s}}`, update)
}

// chunk sends a piece of text.
func (f *fakeAgent) chunk(text string) {
	data, _ := json.Marshal(text) // cannot fail
	f.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":` + string(data) + `}}`)
}

// prompt does what the mode says. It returns the exit code, -1 to continue.
func (f *fakeAgent) prompt() int {
	switch f.mode {
	case "early":
		f.chunk(f.text)
		return 3
	case "hangs", "stubborn":
		f.chunk(f.text)
		time.Sleep(time.Minute)
	case "odd":
		f.odd()
	case "big":
		f.update(`{"sessionUpdate":"tool_call","toolCallId":"c1","title":"cat","kind":"execute","status":"in_progress",` +
			`"rawInput":{"command":"cat big"}}`)
		f.update(`{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed","rawOutput":{"output":"` +
			strings.Repeat("x", 10<<20) + `","exitCode":0}}`)
	case "leaves":
		c := exec.Command(os.Args[0], agenttest.Fake("daemon", "clear", "quiet")[1:]...)
		if c.Run() != nil {
			return 9
		}
	case "asks", "stops":
		return f.ask()
	case "floods":
		for i := range maxOpen + 1 {
			f.say(`{"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"toolCall":{"toolCallId":"c%d"}}}`,
				i, i)
		}
		f.wait()
	case "calls":
		for i := range maxTools + 1 {
			f.update(fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"c%d"}`, i))
		}
		f.wait()
	case "deaf":
		for range maxDeaf {
			f.say(`{"jsonrpc":"2.0","id":"%s","method":"x"}`, strings.Repeat("x", 1<<20))
		}
		time.Sleep(time.Minute)
	case "mode":
		f.text += f.set
	case "model": // sends it an empty request, which is refused, and ends its turn normally
		req, err := http.NewRequest(http.MethodPost, os.Getenv("BASE")+"/v1/messages",
			strings.NewReader(`{"model":"m","messages":[]}`))
		if err != nil {
			return 9
		}
		req.Header.Set("X-Api-Key", os.Getenv("KEY"))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 9
		}
		res.Body.Close()
	case "vendor":
		f.say(`{"jsonrpc":"2.0","id":"v","method":"craft/drainMidTurnQueue","params":{}}`)
		f.text += f.answer()
	}
	f.chunk(f.text)
	return -1
}

// maxDeaf is how many MiB are more than what is queued for an agent, and what is in pipes.
const maxDeaf = 20

// wait waits until the turn is cancelled.
func (f *fakeAgent) wait() {
	for f.in.Scan() && !strings.Contains(f.in.Text(), "session/cancel") {
	}
}

// answer returns the client's next answer.
func (f *fakeAgent) answer() string {
	f.in.Scan()
	return f.in.Text()
}

// ask asks for permission to use a tool before announcing it, and acts on the answer.
func (f *fakeAgent) ask() int {
	f.say(`{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s1",` +
		`"toolCall":{"toolCallId":"c1",` +
		`"title":"Remove all","kind":"execute","rawInput":{"command":"rm -r *"}},"options":[{"optionId":"ever",` +
		`"kind":"allow_always"},` +
		`{"optionId":"once","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}}`)
	yes := strings.Contains(f.answer(), `"optionId":"once"`)
	f.update(`{"sessionUpdate":"tool_call","toolCallId":"c1","title":"Remove all","kind":"execute",` +
		`"status":"in_progress"}`)
	if !yes {
		f.update(`{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"failed"}`)
		if f.mode == "stops" {
			return -1
		}
		f.chunk("denied")
		return -1
	}
	f.update(`{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed","rawOutput":{"exit_code":0}}`)
	f.chunk("allowed")
	return -1
}

// odd sends what no agent should.
func (f *fakeAgent) odd() {
	for _, line := range []string{"", "no JSON", "{", `{"jsonrpc":"2.0"}`, `[1]`, "\xff\xfe\x00",
		`{"jsonrpc":"2.0","id":999,"result":{}}`,
		`{"jsonrpc":"2.0","method":"qwen/notify/x","params":1}`, `{"jsonrpc":"2.0","method":"session/update","params":"x"}`} {
		f.say("%s", line)
	}
	for _, u := range []string{`1`, `{}`, `{"sessionUpdate":"from_the_future","content":[1]}`,
		`{"sessionUpdate":"agent_message_chunk","content":7}`,
		`{"sessionUpdate":"tool_call"}`, `{"sessionUpdate":"usage_update","used":-1}`, `{"sessionUpdate":"plan","entries":7}`,
		// One that was never announced, and ends twice.
		`{"sessionUpdate":"tool_call_update","toolCallId":"u","kind":"edit","status":"completed","content":[{"type":"diff",` +
			`"path":"/a","oldText":"x\n","newText":"y\n"},{"type":"?"}]}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"u","status":"failed"}`} {
		f.update(u)
	}
	// What differs in form only counts.
	f.say("\uFEFF" + `{"jsonrpc":2.0,"id":null,"method":"session/update",` +
		`"params":{"update":{"sessionUpdate":"agent_message_chunk",` +
		`"title":7,"content":{"type":"text","text":"I am "}}}}`)
}
