package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

// fails returns the failure that an attempt must have ended with.
func fails(t *testing.T, err error, kind string) *agent.Failure {
	t.Helper()
	var f *agent.Failure
	if !errors.As(err, &f) || f.Kind != kind {
		t.Fatalf("it ends with %v, want a failure of kind %s", err, kind)
	}
	return f
}

func TestFailures(t *testing.T) {
	part := `{"choices":[{"delta":{"content":"never to its end"}}]}`
	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		kind    string
		final   bool
		session bool
		asked   int
		want    string
	}{
		"a wrong key": {status(401, `{"error":{"message":"no such key"}}`), agent.Infra, true, true, 1,
			"no such key; it wants a key"},
		"not there": {status(404, `{"error":"model 'm' not found"}`), agent.Infra, true, true, 1,
			"model 'm' not found; check url"},
		"wrong":    {status(400, "what?"), agent.Infra, true, false, 1, "answers 400 Bad Request: what?"},
		"too many": {status(429, "{}", "Retry-After", "2"), agent.Limit, false, true, maxTries, "429"},
		"a page": {status(200, "<!DOCTYPE html>\n<html><head><title>Open WebUI</title></head></html>"), agent.Infra, true,
			true, 1,
			`answers 200 OK: a page instead of an answer, "Open WebUI"; check url`}, // openclaw/openclaw#84697
		"a page for 403": {status(403, "<html><title>Blocked</title>"), agent.Infra, true, true, 1, `"Blocked"; check url`},
		"empty":          {status(200, " \n"), agent.Infra, false, true, maxTries, "answers 200 OK with nothing; check url"},
		"XML": {status(200, "<?xml version='1.0'?><Error>no</Error>"), agent.Infra, true, true, 1,
			"<Error>no</Error>; check url"},
		"moderated": {status(403, `{"code":"The caller does not have permission","error":"Content violates usage `+
			`guidelines. Failed check: SAFETY_CHECK_TYPE_X, API key ID: x"}`),
			// theopenco/llmgateway#1785
			agent.Refused, false, false, 1, "Failed check: SAFETY_CHECK_TYPE_X, API key ID: x; it declined"},
		"moderated too": {status(403, `{"error":{"code":403,"message":"x requires moderation. Your input was flagged",`+
			`"metadata":{"flagged_input":"the key"}}}`),
			agent.Refused, false, false, 1, "flagged; it declined"},
		"filtered": {status(400, `{"error":{"code":"content_filter","message":"The prompt was filtered"}}`), agent.Refused,
			false, false, 1, "filtered; it declined"},
		"no access": {status(403, `{"error":{"message":"you have no access to this model"}}`), agent.Infra, true, true, 1,
			"no access to this model; it wants a key"},
		"much later":  {status(429, "{}", "Retry-After", "3600"), agent.Limit, false, true, 1, "429"},
		"down longer": {status(503, "{}", "Retry-After", "3600"), agent.Limit, false, true, 1, "503"},
		"no money":    {status(402, "{}"), agent.Limit, false, true, 1, "402"},
		"our budget": {status(400, `{"error":{"type":"plait_gateway","message":"the budget is used up"}}`), agent.Limit,
			false, true, 1, "used up"},
		"unreachable": {status(502, `{"error":{"type":"plait_gateway","message":"the model's server could not be reached: `+
			`why"}}`), agent.Infra,
			false, true, maxTries, ": the model's server could not be reached: why"},
		"nobody there": {status(502, `{"error":{"type":"plait_gateway","code":"connection_refused","message":"the model's `+
			`server could not be reached: why"}}`),
			agent.Infra, false, true, 1, ": the model's server could not be reached: why"},
		"broken": {status(503, "<html>"), agent.Infra, false, true, maxTries, "503"},
		"cut":    {sse(part), agent.Infra, false, true, maxTries, "broke its answer off"},
		"an error in the stream": {sse(part, `{"error":{"message":"out of memory","code":500}}`), agent.Infra, false, true,
			maxTries,
			"out of memory"},
		"too long": {status(400, `{"error":{"code":"context_length_exceeded","message":"too long"}}`), agent.Limit, false,
			false, 1, "does not fit"},
		"too long too": {status(400, `{"error":{"message":"the request exceeds the available context size"}}`), agent.Limit,
			false, false, 1, "does not fit"},
		"no room": {sse(`{"choices":[{"delta":{"content":"x"},"finish_reason":"length"}]}`), agent.Limit, false, true, 1,
			"no room"},
		"declined": {sse(`{"choices":[{"delta":{"refusal":"never"},"finish_reason":"stop"}]}`), agent.Refused, false,
			true, 1, "never"},
		"nothing":  {says(" "), agent.InvalidOutput, false, true, 1, "without an answer"},
		"for ever": {calls("read", object{"path": "a.txt"}), agent.Limit, true, true, 3, "maxTurns"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, c.answer)
			l.cfg.MaxTurns = 3
			_, err := l.run()
			f := fails(t, err, c.kind)
			if f.Final != c.final || (f.Session != "") != c.session || !strings.Contains(f.Message, c.want) ||
				len(l.bodies) != c.asked {
				t.Errorf("asked %d times: %+v", len(l.bodies), f)
			}
			if later := name == "too many" || name == "much later" || name == "down longer"; f.ResetAt.IsZero() == later {
				t.Errorf("it resets at %v", f.ResetAt)
			}
		})
	}
}

// TestOddBytes checks that odd output of a server is either understood or ignored.
func TestOddBytes(t *testing.T) {
	long := strings.Repeat("long ", 2<<20)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a line of 10 MiB": {says(long + "end"), long[:agent.MaxOutput]},
		"noise": {sse("\xff\xfe", `"text"`, `[]`, `{"choices":null}`,
			`{"choices":[{"delta":{"content":"fine"},"finish_reason":"stop"}]}`, "[DONE]"),
			"fine"},
		"one object": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			fmt.Fprint(w, `{"choices":[{"message":{"content":"fine"},"finish_reason":"stop"}]}`)
		}, "fine"},
		"CRLF and comments": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": a comment\r\nevent: x\r\ndata:{\"choices\":[{\"delta\":{\"content\":\"fi\"}}]}\r\n\r\n"+
				"data: {\"choices\":[{\"delta\":{\"content\":\"ne\"},\"finish_reason\":\"stop\"}]}\r\n\r\n")
		}, "fine"},
	} {
		l := newLab(t, c.answer)
		res, err := l.run()
		if err != nil || string(res.Output) != c.want {
			t.Errorf("%s: %.100q of %d bytes, %v", name, res.Output, len(res.Output), err)
		}
	}
}

// TestRetries checks that a complete answer after incomplete ones is used, and nothing of those.
func TestRetries(t *testing.T) {
	broken := `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"edit",` +
		`"arguments":"{\"path\":\"b.txt\",\"new\":\"b\"}"}}]}}]}`
	l := newLab(t, sse(broken), status(500, "{}"), says("done"))
	res, err := l.run()
	if err != nil || string(res.Output) != "done" || l.file("b.txt") != "" {
		t.Errorf("%+v %v %q", res, err, l.file("b.txt"))
	}
	told := 0
	for _, e := range l.events {
		if e.Kind == agent.EventError && e.WillRetry {
			told++
		}
	}
	if told != 2 {
		t.Errorf("%d retries are told: %+v", told, l.events)
	}
}

// TestShape checks that an answer of another form is asked for once more, with the schema if the server supports it.
func TestShape(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"$status":{"enum":["ok"]},"n":{"type":"integer"}},` +
		`"required":["$status","n"]}`)
	const good = `{"$status":"ok","n":12345678901234567890,"$body":"the text"}`
	const want = "---\n{\"$status\": \"ok\", \"n\": 12345678901234567890}\n---\n\nthe text"
	for name, c := range map[string]struct {
		answers []http.HandlerFunc
		want    string
		asked   int
	}{
		"at once":     {[]http.HandlerFunc{says(good)}, want, 1},
		"in a fence":  {[]http.HandlerFunc{says("```json\n" + good + "\n```")}, want, 1},
		"asked again": {[]http.HandlerFunc{says("It is fine."), says(good)}, want, 2},
		"no schemas": {[]http.HandlerFunc{says("It is fine."), status(400, "unknown field response_format"), says(good)},
			want, 3},
		"never":        {[]http.HandlerFunc{says("It is fine.")}, "It is fine.", 2},
		"never enough": {[]http.HandlerFunc{says(`{"$status":"ok"}`)}, "---\n{\"$status\": \"ok\"}\n---\n\n", 2},
		"suspends": {[]http.HandlerFunc{says(`{"$status":"$SUSPEND","reason":"why?"}`)},
			"---\n{\"$status\": \"$SUSPEND\", \"reason\": \"why?\"}\n---\n\n", 1},
	} {
		l := newLab(t, c.answers...)
		res, err := l.run(func(r *agent.Request) { r.Schema, r.Shaped = schema, true })
		if err != nil || string(res.Output) != c.want || len(l.bodies) != c.asked {
			t.Errorf("%s: asked %d times: %q %v", name, len(l.bodies), res.Output, err)
		}
		if c.asked > 1 && (!strings.Contains(l.bodies[1], `"response_format":{"json_schema"`) ||
			strings.Contains(l.bodies[0], "response_format")) {
			t.Errorf("%s: %s", name, l.bodies[1])
		}
	}
	a := &Agent{}
	for text, ok := range map[string]bool{string(schema): true, `{"type":"object"}`: false, `true`: false,
		`{"type":"string"}`: false,
		`{"type":"object","properties":{},"oneOf":[{}]}`:                     false,
		`{"type":"object","properties":{"x":{"$ref":"file:///etc/passwd"}}}`: false} {
		if a.Shapes(json.RawMessage(text)) != ok {
			t.Errorf("%s: %t", text, !ok)
		}
	}
}

// TestTornSession checks that a conversation with a torn last line can be continued, and that each call has an answer.
func TestTornSession(t *testing.T) {
	l := newLab(t, calls("read", object{"path": "a.txt"}), says("done"), says("again"))
	res, err := l.run()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(l.home, "model", res.Session+".jsonl")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	if err := os.WriteFile(file, []byte(lines[0]+lines[1]+lines[2][:20]), 0o600); err != nil {
		t.Fatal(err)
	}
	if res, err = l.run(func(r *agent.Request) { r.Session, r.Prompt = res.Session, "Go on." }); err != nil ||
		res.Turn != "2" {
		t.Fatalf("%+v %v", res, err)
	}
	body := l.bodies[2]
	if at := strings.Index(body, "This was interrupted."); at < 0 || at > strings.Index(body, "Go on.") ||
		strings.Contains(body, "three") {
		t.Errorf("%s", body)
	}
}

// TestKeyStays checks that neither commands nor the log get the key.
func TestKeyStays(t *testing.T) {
	l := newLab(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer the-key" {
			t.Errorf("the server is shown %v", r.Header)
		}
		calls("run", object{"command": "env; cat /proc/$PPID/environ"})(w, r)
	}, says("done"))
	t.Setenv("MY_KEY", "the-key")
	l.host = newHost(t, map[string]string{"HOME": t.TempDir(), "MY_KEY": "the-key"})
	l.cfg.KeyEnv, l.cfg.Pass = "MY_KEY", []string{"MY_KEY"}
	if l.host.Sandbox.Bwrap == "" {
		t.Skip("NOT TESTED: bubblewrap is not installed, so commands can look at Plait itself")
	}
	if _, err := l.run(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(l.bodies[1], "PATH=") || strings.Contains(l.bodies[1]+l.raw.String(), "the-key") {
		t.Errorf("the model is told %s", l.bodies[1])
	}
}

// TestNobodyListens checks that a server that refuses connections is asked only once.
func TestNobodyListens(t *testing.T) {
	l := newLab(t, says("done"))
	s := httptest.NewServer(nil)
	s.Close() // its port is free
	l.cfg.URL = s.URL + "/v1"
	_, err := l.run()
	f := fails(t, err, agent.Infra)
	if f.Final || !strings.Contains(f.Message, "refused") {
		t.Errorf("%+v", f)
	}
	for _, e := range l.events {
		if e.WillRetry {
			t.Errorf("it is asked again: %+v", e)
		}
	}
}

// TestDiskFull checks that an attempt ends with the error if one of its logs cannot be written, also the last line.
func TestDiskFull(t *testing.T) {
	for name, set := range map[string]func(desk *agent.Desk, d *agenttest.Disk){
		"raw":      func(desk *agent.Desk, d *agenttest.Disk) { desk.Raw = d },
		"requests": func(desk *agent.Desk, d *agenttest.Disk) { desk.Requests = d },
	} {
		for n := 0; ; n++ {
			l, d := newLab(t, calls("read", object{"path": "a.txt"}), says("done")), &agenttest.Disk{Room: n}
			_, err := l.run(func(r *agent.Request) { set(&r.Desk, d) })
			if !d.Failed {
				if n < 1 || err != nil {
					t.Errorf("%s: %d writes: %v", name, n, err)
				}
				break
			}
			var f *agent.Failure
			if !errors.Is(err, agenttest.ErrDisk) || errors.As(err, &f) {
				t.Errorf("%s: with room for %d writes: %v", name, n, err)
			}
		}
	}
}

// TestCheckKeepsTheKey checks that a server that is asked for its models cannot send the key elsewhere.
func TestCheckKeepsTheKey(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	err = Check(t.Context(), Server{URL: at, API: Messages, Model: "m", key: "secret"})
	if err != nil || asked > 0 {
		t.Errorf("%v; the other server was asked %d times", err, asked)
	}
}

// TestCheckOfAPage checks that a web page is told from a server that does not list its models.
func TestCheckOfAPage(t *testing.T) {
	for body, want := range map[string]string{"not here": "",
		" <html><title>UI</title>": `a page instead of an answer, "UI"; check url:`} {
		server := httptest.NewServer(status(200, body))
		at, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		err = Check(t.Context(), Server{URL: at, Model: "m"})
		if server.Close(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", body, err, want)
		}
	}
}
