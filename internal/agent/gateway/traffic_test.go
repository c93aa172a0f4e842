package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
)

// An ear is a Traffic that keeps what it receives.
type ear struct {
	begin func(*agent.Call) (*agent.Reply, error)

	mu    sync.Mutex
	began []agent.Call
	ended []agent.Reply
	used  []agent.Usage
	over  chan struct{} // one for each End
}

func (e *ear) Begin(_ context.Context, c *agent.Call) (*agent.Reply, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.began = append(e.began, *c)
	if e.begin != nil {
		return e.begin(c)
	}
	return nil, nil
}

func (e *ear) End(_ *agent.Call, r agent.Reply, used agent.Usage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended, e.used = append(e.ended, r), append(e.used, used)
	if e.over != nil {
		e.over <- struct{}{}
	}
}

// listen starts a gateway with an ear in front of a server.
func listen(t *testing.T, e *ear, up http.HandlerFunc) (*Gateway, *http.Client) {
	t.Helper()
	srv := httptest.NewServer(up)
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	g, err := Open(Config{Upstream: Upstream{URL: u.JoinPath("v1")}, Traffic: e})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	c := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(c.CloseIdleConnections)
	return g, c
}

func post(t *testing.T, c *http.Client, g *Gateway, path, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL()+"/v1"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+g.Token())
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(said)
}

func TestTrafficSeesEachCall(t *testing.T) {
	e := &ear{}
	g, c := listen(t, e, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) != `{"model":"m"}` {
			t.Errorf("the upstream gets %q", body)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if r.URL.Path == "/v1/chat/completions" {
			w.WriteHeader(500)
		}
		io.WriteString(w, stream)
	})
	for _, path := range []string{"/messages?beta=true", "/chat/completions", "/messages/count_tokens"} {
		if _, body := post(t, c, g, path, `{"model":"m"}`); body != stream {
			t.Errorf("%s: %q", path, body)
		}
	}
	g.Close()
	call := func(path string) agent.Call {
		return agent.Call{Method: "POST", Path: path, Type: "application/json", Body: []byte(`{"model":"m"}`)}
	}
	reply := func(status int) agent.Reply {
		return agent.Reply{Status: status, Type: "text/event-stream", Body: []byte(stream)}
	}
	if diff := cmp.Diff([]agent.Call{call("/messages"), call("/chat/completions"), call("/messages/count_tokens")},
		e.began); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]agent.Reply{reply(200), reply(500), reply(200)}, e.ended); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(agent.Usage{InputTokens: 100, CachedInputTokens: 10, OutputTokens: 20}, e.used[0]); diff != "" ||
		e.used[2] != (agent.Usage{}) {
		t.Errorf("%+v\n%s", e.used, diff)
	}
}

func TestTrafficAnswersAndRefuses(t *testing.T) {
	e := &ear{begin: func(c *agent.Call) (*agent.Reply, error) {
		if string(c.Body) == "no" {
			return nil, errors.New(`1 of 1 "tokens" used`)
		}
		return &agent.Reply{Status: 201, Type: "text/odd", Body: []byte("as kept")}, nil
	}}
	g, c := listen(t, e, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s reaches the upstream", r.URL) })
	for path, code := range map[string]int{"/messages": 402, "/responses": 400, "/chat/completions": 400} {
		res, body := post(t, c, g, path, "no")
		if res.StatusCode != code || !strings.Contains(body, `1 of 1 \"tokens\" used`) {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
		if res, body := post(t, c, g, path, "yes"); res.StatusCode != 201 || body != "as kept" ||
			res.Header.Get("Content-Type") != "text/odd" {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
	if res, _ := post(t, c, g, "/messages", strings.Repeat("x", maxRequest+1)); res.StatusCode != 413 {
		t.Errorf("a huge request: %d", res.StatusCode)
	}
	if g.Close(); len(e.ended) != 0 || len(e.began) != 6 || g.Used() != (Usage{}) {
		t.Errorf("%d ended, %d began, used %+v", len(e.ended), len(e.began), g.Used())
	}
}

// TestEndsOnce breaks calls off in every way and checks that End is called once, with what there was.
func TestEndsOnce(t *testing.T) {
	begun := make(chan struct{})
	serve := map[string]http.HandlerFunc{
		"the agent hangs up": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, stream[:300])
			http.NewResponseController(w).Flush()
			close(begun)
			<-r.Context().Done()
		},
		"the upstream breaks": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, stream[:300])
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"the upstream says nothing": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"the gateway is closed": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, stream[:300])
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	}
	for name, up := range serve {
		t.Run(name, func(t *testing.T) {
			e := &ear{over: make(chan struct{}, 2)}
			g, c := listen(t, e, up)
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			req, _ := http.NewRequestWithContext(ctx, "POST", g.URL()+"/v1/messages", strings.NewReader("{}"))
			req.Header.Set("X-Api-Key", g.Token())
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			switch name {
			case "the agent hangs up":
				<-begun
				if _, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				hangUp()
			case "the gateway is closed":
				if _, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				g.Close()
				if len(e.over) != 1 {
					t.Fatal("the gateway is closed before it told the end")
				}
			default:
				io.Copy(io.Discard, res.Body)
			}
			<-e.over
			g.Close()
			if len(e.over) != 0 {
				t.Error("a second end")
			}
			r := e.ended[0]
			silent := name == "the upstream says nothing"
			if !r.Cut || silent != (r.Status == 0) || !silent &&
				(string(r.Body) != stream[:300] || e.used[0].InputTokens != 100 || !r.Estimated) {
				t.Errorf("%+v, used %+v", r, e.used)
			}
		})
	}
}

func TestRemembersFailures(t *testing.T) {
	e := &ear{over: make(chan struct{}, 9), begin: func(c *agent.Call) (*agent.Reply, error) {
		if string(c.Body) == "refused" {
			return nil, errors.New("the budget is used up")
		}
		return nil, nil
	}}
	g, c := listen(t, e, func(w http.ResponseWriter, r *http.Request) {
		switch answer, _ := io.ReadAll(r.Body); string(answer) {
		case "cut":
			io.WriteString(w, "data: {")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "none":
			panic(http.ErrAbortHandler)
		case "429":
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	for _, step := range []struct {
		answer, path string
		want         Failure
	}{
		{"", "/messages", Failure{}},
		{"429", "/messages", Failure{429, 1}},
		{"429", "/messages/count_tokens", Failure{429, 1}},
		{"cut", "/responses", Failure{502, 2}},
		{"none", "/messages", Failure{502, 3}},
		{"refused", "/responses", Failure{402, 4}},
		{"", "/messages", Failure{}},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL()+"/v1"+step.path, strings.NewReader(step.answer))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", g.Token())
		if res, err := c.Do(req); err == nil {
			io.Copy(io.Discard, res.Body) // if it broke off, up to there
			res.Body.Close()
		}
		if step.answer != "refused" {
			<-e.over
		}
		if got := g.Failed(); got != step.want {
			t.Errorf("after %q on %s: got %+v, want %+v", step.answer, step.path, got, step.want)
		}
	}
}

// never is a body that must not be read.
type never struct{ t *testing.T }

func (n never) Read([]byte) (int, error) {
	n.t.Error("the body is read")
	return 0, io.EOF
}

// TestHoldsFewBodies checks that a body is read only when there is room for it, and that the room is given back.
func TestHoldsFewBodies(t *testing.T) {
	g, c := listen(t, &ear{}, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, stream) })
	for range 2 * maxHeld {
		post(t, c, g, "/messages", "{}")
	}
	for range maxHeld {
		g.held <- struct{}{}
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	w := httptest.NewRecorder()
	g.pass(w, httptest.NewRequestWithContext(ctx, "POST", "/v1/messages", never{t}), "/messages")
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("a request for which there is no room: %d %s", w.Code, w.Body)
	}
}

// TestLongResponseIsCut checks that a response is cut if any of it was not kept, not only its end.
func TestLongResponseIsCut(t *testing.T) {
	for more, cut := range map[int]bool{0: false, 5: false, 6: true, 50: true} {
		x := &exchange{call: &agent.Call{}, keep: true, reply: agent.Reply{Cut: true, Body: make([]byte, maxKept-5, maxKept)}}
		b := &watched{io.NopCloser(iotest.OneByteReader(strings.NewReader(strings.Repeat("x", more)))), x}
		if _, err := io.Copy(io.Discard, b); err != nil {
			t.Fatal(err)
		}
		if x.reply.Cut != cut || len(x.reply.Body) != maxKept-5+min(more, 5) {
			t.Errorf("%d bytes more: cut %t, %d kept", more, x.reply.Cut, len(x.reply.Body))
		}
	}
}
