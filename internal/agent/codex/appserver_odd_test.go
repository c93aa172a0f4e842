package codex

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

func TestFakeOddStreams(t *testing.T) {
	note := func(method, params string) string { return `{"method":"` + method + `","params":` + params + `}` }
	item := func(phase, rest string) string {
		return note("item/"+phase, `{"threadId":"THREAD","turnId":"TURN","item":{`+rest+`}}`)
	}
	tests := []struct {
		name   string
		script fakeScript
		want   []string // kind and phase of the events, if not nil
	}{
		{"plain", fakeScript{Turn: []string{said}}, []string{"message completed"}},
		{"a line of 6 MB", fakeScript{
			Turn: []string{item("completed", `"type":"commandExecution","id":"c","command":"x","status":"completed",`+
				`"exitCode":0,"aggregatedOutput":"BIG"`), said}}, []string{"command completed", "message completed"}},
		{"garbage", fakeScript{Turn: []string{"garbage", "", "{", "[]", "null", `"text"`, "\x00\xff", said}},
			[]string{"message completed"}},
		{"garbage before the answer",
			fakeScript{Before: []string{"garbage", note("turn/started", `{"threadId":"THREAD","turn":{"id":"TURN"}}`)},
				Turn: []string{said}}, []string{"message completed"}},
		{"unknown notifications",
			fakeScript{Turn: []string{note("thread/dreamt", `{"threadId":"THREAD"}`), note("whatever", `7`),
				`{"method":"nothing"}`, said}}, []string{"message completed"}},
		{"unknown items", fakeScript{Turn: []string{item("completed", `"type":"telepathy","id":"t","text":7`),
			item("started", `"id":"n"`), item("completed", ``), said}}, []string{"message completed"}},
		{"fields of another type",
			fakeScript{Turn: []string{note("item/completed", `{"threadId":"THREAD","item":[]}`),
				note("turn/completed", `{"threadId":"THREAD","turn":7}`), note("error", `"oops"`), said}}, nil},
		{"a session of somebody else",
			fakeScript{Turn: []string{strings.ReplaceAll(said, "THREAD", "foreign"),
				strings.ReplaceAll(note("turn/completed",
					`{"threadId":"THREAD","turn":{"id":"TURN","status":"failed"}}`), "THREAD", "foreign"), said}},
			[]string{"message completed"}},
		{"an earlier turn ends",
			fakeScript{Turn: []string{
				note("turn/completed", `{"threadId":"THREAD","turn":{"id":"earlier","status":"failed"}}`), said}},
			[]string{"message completed"}},
		{"answers to nothing",
			fakeScript{Turn: []string{`{"id":999,"result":{}}`, `{"id":"x","error":{"code":1,"message":"no"}}`,
				`{"id":null,"result":1}`, `{"id":1,"result":{}}`, said}}, []string{"message completed"}},
		{"everything answered twice", fakeScript{Twice: true, Turn: []string{said}}, []string{"message completed"}},
		{"an end without a start",
			fakeScript{Turn: []string{
				item("completed", `"type":"commandExecution","id":"c","command":"x","status":"failed","exitCode":2`),
				said}}, []string{"command failed", "message completed"}},
		{"a start without an end",
			fakeScript{Turn: []string{
				item("started", `"type":"commandExecution","id":"c","command":"x","status":"inProgress"`), said}},
			[]string{"command started", "message completed", "command failed"}},
		{"a flood on stderr", fakeScript{Flood: 4 << 20, Turn: []string{said}}, []string{"message completed"}},
		{"no cleaning up", fakeScript{Turn: []string{said},
			Refuse: map[string]string{"thread/backgroundTerminals/clean": "unknown variant"}}, []string{"message completed"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, y := newFake(t, tt.script), newAppTry(t, "go")
			res := y.works(t, f)
			if string(res.Output) != "all done" {
				t.Errorf("got output %q", res.Output)
			}
			var got []string
			for _, e := range y.events {
				got = append(got, e.Kind+" "+e.Phase)
			}
			if tt.want != nil && !slices.Equal(got, tt.want) {
				t.Errorf("got events %q, want %q", got, tt.want)
			}
			if y.raw.String() != f.wrote(t) {
				t.Error("the raw log is not what Codex wrote, byte for byte")
			}
			if n := tt.script.Flood; n > 0 && len(y.stderr.String()) < n-18 {
				t.Errorf("the log of stderr has %d bytes", len(y.stderr.String()))
			}
		})
	}
}

func TestFakeRefusals(t *testing.T) {
	ask := func(id, method string) string {
		return `{"id":` + id + `,"method":"` + method + `","params":{"threadId":"THREAD","turnId":"TURN","itemId":"i"}}`
	}
	f := newFake(t, fakeScript{Turn: []string{
		ask("0", "item/mind/read"), "await", ask(`"s"`, "account/chatgptAuthTokens/refresh"), "await",
		ask("2", "item/tool/call"), "await", ask("3", "mcpServer/elicitation/request"), "await",
		ask("4", "item/tool/requestUserInput"), "await", ask("5", "execCommandApproval"), "await",
		ask("6", "item/permissions/requestApproval"), "await",
		strings.ReplaceAll(ask("7", "item/commandExecution/requestApproval"), "THREAD", "foreign"), "await", said,
	}})
	y := newAppTry(t, "go")
	y.works(t, f)
	for _, want := range []string{
		`{"id":0,"error":{"code":-32601,"message":"not supported: item/mind/read"}}`,
		`{"id":"s","error":{"code":-32601,`, `{"id":2,"error":{"code":-32601,`,
		`{"id":3,"result":{"_meta":null,"action":"decline","content":null}}`,
		`{"id":4,"result":{"answers":{}}}`, `{"id":5,"error":{"code":-32601,`,
		`{"id":6,"result":{"permissions":{},"scope":"turn"}}`, `{"id":7,"error":{"code":-32600,"message":"no ` +
			`session for this request"}}`,
	} {
		contains(t, "what Codex read", f.read(t), want)
	}
	if n := strings.Count(y.requests.String(), `"dir":"in"`); n < 7 {
		t.Errorf("requests.jsonl has %d lines from Codex:\n%s", n, y.requests.String())
	}
}

func TestFakeFailures(t *testing.T) {
	quick := func(f *fakeLab, _ *appTry) { f.host.startup = 400 * time.Millisecond }
	slow := func(f *fakeLab, _ *appTry) { f.host.startup = 3 * time.Second } // enough to start on a busy machine
	idle := func(_ *fakeLab, y *appTry) { y.req.Idle = 400 * time.Millisecond }
	wall := func(_ *fakeLab, y *appTry) { y.req.Timeout = 400 * time.Millisecond }
	huge := func(f *fakeLab, y *appTry) { wall(f, y); y.req.Prompt = strings.Repeat("prompt ", 1_000_000) }
	tests := []struct {
		name   string
		script fakeScript
		change func(*fakeLab, *appTry)
		kind   string
		says   string
		final  bool
	}{
		{"never answers initialize", fakeScript{Mute: []string{"initialize"}}, quick, agent.Infra,
			"did not answer within 400ms", false},
		{"never answers initialize, timeout", fakeScript{Mute: []string{"initialize"}}, wall, agent.TimedOut,
			"timeout of 400ms", false},
		{"never answers thread/start", fakeScript{Mute: []string{"thread/start"}}, slow, agent.Infra,
			"did not begin its turn within 3s", false},
		{"never answers turn/start", fakeScript{Mute: []string{"turn/start"}, NoEnd: true}, slow, agent.Infra,
			"did not begin its turn within 3s", false},
		{"exits in the handshake", fakeScript{Exit: "initialize"}, nil, agent.Infra,
			"did not start: it exited with code 3", false},
		{"exits before the turn", fakeScript{Exit: "turn/start"}, nil, agent.Infra,
			"ended before its turn began: it exited with code 3", false},
		{"exits when told to stop", fakeScript{Exit: "turn/interrupt", NoEnd: true}, wall, agent.TimedOut,
			"timeout of 400ms", false},
		{"refuses to begin", fakeScript{Refuse: map[string]string{"turn/start": "not today"}}, nil, agent.Infra,
			"did not begin its turn: not today", true},
		{"closes stdout", fakeScript{Shut: "turn/start"}, slow, agent.Infra, "did not begin its turn", false},
		{"silent", fakeScript{NoEnd: true}, idle, agent.TimedOut, "said nothing for 400ms", false},
		{"does not read", fakeScript{Deaf: "thread/start"}, wall, agent.TimedOut, "timeout of 400ms", false},
		{"does not read a huge prompt", fakeScript{Deaf: "turn/start"}, huge, agent.TimedOut, "timeout of 400ms",
			false},
		{"does not read the interrupt", fakeScript{Mute: []string{"turn/interrupt"}, NoEnd: true}, wall, agent.TimedOut,
			"timeout of 400ms", false},
		{"fails without a word",
			fakeScript{NoEnd: true,
				Turn: []string{`{"method":"turn/completed","params":{"threadId":"THREAD","turn":{"id":"TURN",` +
					`"status":"failed"}}}`}}, nil, agent.Infra, "Codex does not say why", false},
		{"interrupts itself",
			fakeScript{NoEnd: true,
				Turn: []string{`{"method":"turn/completed","params":{"threadId":"THREAD","turn":{"id":"TURN",` +
					`"status":"interrupted"}}}`}}, nil, agent.Infra, "the turn was interrupted", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, y := newFake(t, tt.script), newAppTry(t, "go")
			if tt.change != nil {
				tt.change(f, y)
			}
			fail := y.fails(t.Context(), t, f, tt.kind)
			contains(t, "the message", fail.Message, tt.says)
			if fail.Final != tt.final {
				t.Errorf("got failure %+v", fail)
			}
			if len(agenttest.Tagged(y.req.Tag)) > 0 {
				t.Error("something runs on")
			}
		})
	}
}

// TestFakeDiesWhileAsking checks that an open question does not hold up an attempt whose Codex is gone.
func TestFakeDiesWhileAsking(t *testing.T) {
	f := newFake(t, fakeScript{NoEnd: true, Exit: "turn/steer", Turn: []string{
		`{"id":0,"method":"item/commandExecution/requestApproval","params":{"threadId":"THREAD","turnId":"TURN",` +
			`"itemId":"i","command":"x"}}`,
	}})
	y := newAppTry(t, "go")
	more := make(chan agent.Addition, 1)
	y.req.Additions = more
	y.req.Ask = func(ctx context.Context, _ agent.Question) (agent.Answer, error) {
		more <- agent.Addition{Text: "this ends it", Delivered: func() {}}
		<-ctx.Done()
		return agent.Answer{}, ctx.Err()
	}
	contains(t, "the message", y.fails(t.Context(), t, f, agent.Infra).Message,
		"in the middle of its turn: it exited with code 3")
}

// TestFakeAskFails checks that the raw log has what Codex says after a question that could not be asked.
func TestFakeAskFails(t *testing.T) {
	f := newFake(t, fakeScript{NoEnd: true, Turn: []string{
		`{"id":0,"method":"item/commandExecution/requestApproval","params":{"threadId":"THREAD","turnId":"TURN",` +
			`"itemId":"i","command":"x"}}`, "await", said,
	}})
	y := newAppTry(t, "go")
	broken := errors.New("the gates are broken")
	y.req.Ask = func(context.Context, agent.Question) (agent.Answer, error) { return agent.Answer{}, broken }
	if _, err := y.run(t.Context(), t, f); !errors.Is(err, broken) {
		t.Errorf("Run returned %v, want the error of Ask", err)
	}
	if raw := y.raw.String(); raw != f.wrote(t) || !strings.Contains(raw, "interrupted") {
		t.Errorf("the raw log is not what Codex wrote, to its end:\n%s", raw)
	}
}

func TestFakeWithdrawsQuestion(t *testing.T) {
	f := newFake(t, fakeScript{Turn: []string{
		`{"id":0,"method":"item/commandExecution/requestApproval","params":{"threadId":"THREAD","turnId":"TURN",` +
			`"itemId":"i","command":"x"}}`,
		`{"method":"serverRequest/resolved","params":{"threadId":"THREAD","requestId":0}}`, "await", said,
	}})
	y := newAppTry(t, "go")
	y.req.Ask = func(ctx context.Context, _ agent.Question) (agent.Answer, error) {
		<-ctx.Done()
		return agent.Answer{}, ctx.Err()
	}
	y.works(t, f)
}

// TestFakeStubbornTurnOnSharedServer checks that a turn that cannot be ended takes a shared server down with it.
func TestFakeStubbornTurnOnSharedServer(t *testing.T) {
	f := newFake(t, fakeScript{Mute: []string{"turn/interrupt"}, NoEnd: true, Turn: []string{said}})
	home := t.TempDir()
	y, z := newAppTry(t, "go"), newAppTry(t, "go")
	y.req.Home, z.req.Home = home, home
	z.req.Timeout = 10 * time.Second
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ends := make(chan error, 1)
	begun := make(chan struct{})
	z.on = func(e agent.Event) { close(begun) }
	go func() {
		_, err := z.run(t.Context(), t, f)
		ends <- err
	}()
	<-begun
	y.on = func(agent.Event) { cancel() }
	y.fails(ctx, t, f, agent.Cancelled)
	if y.process != z.process {
		t.Errorf("the servers are %+v and %+v", y.process, z.process)
	}
	var other *agent.Failure
	if err := <-ends; !asErr(err, &other) || other.Kind != agent.Infra || other.Final {
		t.Errorf("the other attempt ended with %v", err)
	}
}
