package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
)

// TestSchemaRefused checks that a server that does not take a schema is asked without, with the tools that some
// demand in a conversation with calls.
func TestSchemaRefused(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"$status":{"enum":["ok"]}},"required":["$status"]}`)
	for _, api := range []string{Chat, Messages} {
		for code, says := range map[int]string{
			400: `{"error":{"message":"This response_format type is unavailable now"}}`,            // ItzCrazyKns/Vane#969
			422: `{"error":{"message":"response_format.type json_schema is unavailable now"}}`,     // dzhng/deep-research#22
			404: `{"error":{"message":"No endpoints found that can handle the requested fields"}}`, // a router's
			415: "", 500: `{"error":{"message":"failed to parse grammar"}}`, 501: "not implemented",
		} {
			refused := 0
			var l *lab
			l = newLab(t, func(w http.ResponseWriter, r *http.Request) {
				got, err := requestOf(api, l.bodies[len(l.bodies)-1])
				if err != nil {
					t.Error(err)
				}
				done := strings.Contains(got.raw, `two\nthree`)
				switch shaped := got.has("response_format") || got.has("output_config"); {
				case shaped:
					refused++
					status(code, says)(w, r)
				case done && !got.has("tools"): // earendil-works/pi#149, BerriAI/litellm#24712
					status(400, "tools= param is required when messages contain tool calls")(w, r)
				case refused > 0:
					raw(strings.ReplaceAll(answerOf(got, true), told, `{\"$status\":\"ok\",\"$body\":\"x\"}`))(w, r)
				default:
					raw(answerOf(got, false))(w, r)
				}
			})
			l.cfg.API = api
			res, err := l.run(func(r *agent.Request) { r.Schema, r.Shaped = schema, true })
			if err != nil || !strings.Contains(string(res.Output), `"$status": "ok"`) || refused != 1 || len(l.bodies) != 4 {
				t.Errorf("%s, %d: asked %d times, %d refused: %q, %v", api, code, len(l.bodies), refused, res.Output, err)
			}
		}
	}
}

// TestTooLong checks that a conversation that is too long is not continued, in the words of many servers, and that
// other failures are not taken for that.
func TestTooLong(t *testing.T) {
	for says, want := range map[string]struct {
		code int
		kind string
		kept bool // the conversation goes on
	}{
		"This model's maximum context length is 8192 tokens.": {400, agent.Limit,
			false},
		// earendil-works/pi#4943
		"Input length 131393 exceeds the maximum allowed input length of 131040 tokens.": {400, agent.Limit,
			false},
		"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).": {400, agent.Limit,
			false},
		"This model's maximum prompt length is 131072 but the request contains 537812 tokens.": {400, agent.Limit,
			false},
		"prompt token count of 128001 exceeds the limit of 128000": {400, agent.Limit,
			false},
		"Your request exceeded model token limit: 262144": {400, agent.Limit,
			false},
		"Prompt exceeds max length": {400, agent.Limit,
			false},
		"Please reduce the length of the messages or completion.": {400, agent.Limit,
			false},
		// openclaw/openclaw#7279
		"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000": {400, agent.Limit,
			false},
		// openclaw/openclaw#36074
		"prompt too long; exceeded max context length by 12 tokens": {400, agent.Limit,
			false},
		"Prompt contains 40000 tokens, too large for model with 32768 maximum context length": {400, agent.Limit,
			false},
		"Range of input length should be [1, 30720]": {400, agent.Limit,
			false},
		"too many tokens: total number of tokens in the prompt cannot exceed 4081": {400, agent.Limit,
			false},
		"Total tokens of image and text exceed max message tokens": {400, agent.Limit,
			false},
		"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096": {422, agent.Limit,
			false},
		"the request exceeds the available context size. try increasing the context size": {500, agent.Limit,
			false},
		`{"error":{"type":"exceed_context_size_error","message":"no"}}`: {400, agent.Limit,
			false},
		`{"error":{"message":"Provider returned error","metadata":{"raw":"prompt is too long: 9 > 8"}}}`: {400, agent.Limit,
			false},
		`{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`: {413, agent.Limit,
			false},
		"<html>Request Entity Too Large</html>": {413, agent.Limit,
			false},
		"Request too large for gpt-4: Limit 10000, Requested 12000. The tokens must be reduced.": {429, agent.Limit,
			false},
		// jin-bo/agentao#88
		"Too many tokens, please wait before trying again.": {429, agent.Limit,
			true},
		"Your credit balance is too low to access the API.": {400, agent.Limit,
			true},
		"Your newly created team doesn't have any credits: insufficient credits": {403, agent.Limit,
			true},
		"Access denied, please make sure your account is in good standing: Arrearage": {400, agent.Limit,
			true},
		"invalid model":     {404, agent.Infra, true},
		"no such key":       {401, agent.Infra, true},
		"overloaded":        {529, agent.Infra, true},
		"I cannot say why.": {400, agent.Infra, false},
		// What is repeated of the conversation does not count.
		`{"detail":[{"type":"missing","loc":["body","x"],"msg":"Field required","input":{"content":"the context ` +
			`length"}}]}`: {422, agent.Infra, false},
		// vllm-project/vllm#54684
		`{"message":"1 validation error:\n  {'type': 'x', 'loc': ('body', 'x'), 'msg': 'no', 'input': 'prompt is too ` +
			`long'}\n","code":400}`: {400, agent.Infra, false},
		`{"error":{"message":"no"},"body":{"messages":[{"content":"your credit ` +
			`balance"}]}}`: {400, agent.Infra, false},
		`{"error":{"message":"no such key","metadata":{"input":"content ` +
			`moderation"}}}`: {403, agent.Infra, true},
		`{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long\"},` +
			`\"input\":\"x\"}"}}}`: {400, agent.Limit, false},
	} {
		l := newLab(t, calls("read", object{"path": "a.txt"}), status(want.code, says))
		_, err := l.run()
		if f := fails(t, err, want.kind); (f.Session != "") != want.kept || f.Final && !want.kept {
			t.Errorf("%d %s: %+v", want.code, says, f)
		}
	}
}

// TestNothingStaysStuck checks that a server that refuses an earlier conversation for good, in any way, is asked for
// a new one after a few attempts.
func TestNothingStaysStuck(t *testing.T) {
	hangUp := func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"I\"}}]}\n\n")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	answers := map[string]http.HandlerFunc{"breaks off": hangUp,
		"no room":  raw(`{"choices":[{"message":{"content":"I"},"finish_reason":"length"}]}`),
		"declines": raw(`{"choices":[{"message":{"content":"I"},"finish_reason":"content_filter"}]}`),
		"an error": raw(`{"error":{"message":"what?"}}`),
	}
	for _, code := range []int{400, 403, 404, 405, 409, 411, 413, 415, 422, 451, 500, 501, 502, 503} {
		answers[fmt.Sprint("status ", code)] = status(code, `{"error":{"message":"what?"}}`)
	}
	for name, refuses := range answers {
		var l *lab
		l = newLab(t, func(w http.ResponseWriter, r *http.Request) {
			switch body := l.bodies[len(l.bodies)-1]; {
			case strings.Contains(body, `"role":"assistant"`):
				refuses(w, r)
			case len(l.bodies) == 1:
				calls("read", object{"path": "a.txt"})(w, r)
			default:
				says("done")(w, r)
			}
		})
		attempts, session, last := 0, "", ""
		for err := errors.New("not yet"); err != nil && attempts < 9; attempts++ {
			last = session
			_, err = l.run(func(r *agent.Request) { r.Session = session })
			var f *agent.Failure
			if errors.As(err, &f) {
				session = f.Session
			}
		}
		if attempts > 4 || last != "" {
			t.Errorf("%s: %d attempts", name, attempts)
		}
	}
	for name, c := range map[string]struct {
		code  int
		says  string
		after string
	}{
		"a wrong key": {401, "no", ""}, "money": {402, "no", ""}, "a limit": {429, "no", ""},
		"a long limit": {503, "no", "9999"},
		"ours":         {400, `{"error":{"type":"plait_gateway","message":"the budget is used up"}}`, ""},
	} {
		l := newLab(t, calls("read", object{"path": "a.txt"}), status(c.code, c.says, "Retry-After", c.after))
		session := ""
		for range 5 {
			_, err := l.run(func(r *agent.Request) { r.Session = session })
			var f *agent.Failure
			if !errors.As(err, &f) || f.Session == "" || session != "" && f.Session != session {
				t.Errorf("%s: the conversation is given up: %v", name, err)
				break
			}
			session = f.Session
		}
	}
}

// TestBranchRefused checks that a branch that a server refuses leaves a session that cannot be continued: without one,
// the same would be branched off again.
func TestBranchRefused(t *testing.T) {
	l := newLab(t, calls("read", object{"path": "a.txt"}), says("done"), status(400, "no"))
	res, err := l.run()
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.run(func(r *agent.Request) {
		r.From = &agent.Branch{Home: l.home, Session: res.Session, Turn: res.Turn}
	})
	f := fails(t, err, agent.Infra)
	a := newAgent(t, l.host, l.cfg)
	of := func(session string) agent.Request { return agent.Request{Home: l.home, Session: session} }
	if f.Session == "" || a.Continues(of(f.Session)) || !a.Continues(of(res.Session)) {
		t.Errorf("%+v", f)
	}
}

// TestLimitOfCommands checks that no number lets a command run for longer than the limit.
func TestLimitOfCommands(t *testing.T) {
	for seconds, want := range map[int]time.Duration{0: usualTime, -1: usualTime, 5: 5 * time.Second, 1 << 20: maxTime,
		10_000_000_000: maxTime, math.MaxInt: maxTime} {
		if got := limitOf(args{Timeout: seconds}); got != want {
			t.Errorf("%d s: %v, want %v", seconds, got, want)
		}
	}
}
