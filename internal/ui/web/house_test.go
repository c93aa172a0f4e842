package web

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/view/taskdir"
)

func TestMain(m *testing.M) {
	if flag.Parse(); testing.Short() {
		fmt.Println("NOT TESTED with -short: the page, in a browser")
		return
	}
	goleak.VerifyTestMain(withChromium{m})
}

// withChromium runs tests and then closes the Chromium that they have used.
type withChromium struct{ *testing.M }

func (m withChromium) Run() int {
	defer closeChromium()
	return m.M.Run()
}

// A scripted agent plays one role.
type scripted = housetest.Role

func say(answers ...string) scripted { return housetest.Say(answers...) }

// A house is a store, a workspace and scripted agents; sites are opened on it.
type house struct {
	signing *gate.Signing // of answers to approvals
	t       testing.TB
	store   *counted
	dir     string
	home    string
	agents  map[string]scripted // by role
	real    agent.Agent         // plays every role instead of them
	only    bool                // sites are read-only
	beat    time.Duration       // time between heartbeats of their streams; 0: the default

	consent func(control.Found) error // of sites
	offline func(flow string) string
	demo    *Demo
	options control.Options // of tasks
	publish func(ctx context.Context, row store.Thread, request, protected bool) (did, url string, err error)
}

// A counted store counts reads of the journal and commits.
type counted struct {
	store.Store
	mu      sync.Mutex
	reads   int
	commits int
	after   func(context.Context) // called after each commit, with its context
}

// afterCommit sets the function that is called after each commit, or nil.
func (c *counted) afterCommit(f func(context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after = f
}

func (c *counted) Events(ctx context.Context, after int64, f store.EventFilter) ([]store.Event, error) {
	c.mu.Lock()
	c.reads++
	c.mu.Unlock()
	return c.Store.Events(ctx, after, f)
}

func (c *counted) Commit(ctx context.Context, b store.Batch) error {
	c.mu.Lock()
	c.commits++
	after := c.after
	c.mu.Unlock()
	err := c.Store.Commit(ctx, b)
	if after != nil {
		after(ctx)
	}
	return err
}

func (c *counted) counts() (reads, commits int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads, c.commits
}

func newHouse(t testing.TB, agents map[string]scripted) *house {
	t.Helper()
	return &house{t: t, store: &counted{Store: mem.New(mem.Config{})}, dir: t.TempDir(), home: t.TempDir(), agents: agents}
}

func (h *house) controller() *control.Controller {
	return control.New(control.Config{
		Store: h.store, Home: h.home, Backoff: time.Microsecond,
		Settings: housetest.Settings("scripted"), Signing: h.signing,
		Agent: func(string, flow.Agent, control.AgentOptions) (agent.Agent, error) {
			if h.real != nil {
				return h.real, nil
			}
			return housetest.Cast(h.agents), nil
		},
	})
}

// begin creates a task without driving it.
func (h *house) begin(yaml, prompt string) store.Thread {
	h.t.Helper()
	return h.made(housetest.Flow(h.t, yaml), prompt)
}

// chat begins a conversation and has the agent answer, unless there is nothing to answer.
func (h *house) chat(prompt string) store.Thread {
	h.t.Helper()
	def, ok := parse.BuiltIn(flow.ChatFlow)
	if !ok {
		h.t.Fatal("there is no flow for conversations")
	}
	row, err := h.controller().Drive(h.t.Context(), h.made(def, prompt).ID, control.Resume{})
	if err != nil {
		h.t.Fatal(err)
	}
	return row
}

func (h *house) made(def *flow.Definition, prompt string) store.Thread {
	h.t.Helper()
	data, err := json.Marshal(def)
	if err != nil {
		h.t.Fatal(err)
	}
	row, err := h.controller().Begin(h.t.Context(), control.Spec{
		Bundle: thread.Bundle{Name: def.Name, Flows: map[string]json.RawMessage{def.Name: data}}, Prompt: prompt,
		Workspace: h.dir, Options: h.options,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return row
}

// run begins a task and drives it until it has ended or needs a person.
func (h *house) run(yaml, prompt string) store.Thread {
	h.t.Helper()
	row, err := h.controller().Drive(h.t.Context(), h.begin(yaml, prompt).ID, control.Resume{})
	if err != nil {
		h.t.Fatal(err)
	}
	return row
}

// gate waits for the only open gate of a task and returns it.
func (h *house) gate(id string) store.Gate {
	h.t.Helper()
	var open []store.Gate
	eventually(h.t, "an open gate", func() (err error) {
		open, err = h.store.Gates(h.t.Context(), store.GateFilter{Task: id, State: store.GateOpen})
		if err == nil && len(open) != 1 {
			err = fmt.Errorf("%d gates are open", len(open))
		}
		return err
	})
	return open[0]
}

// ends waits until a task has ended, and returns its row.
func (h *house) ends(id string, status store.Status) store.Thread {
	h.t.Helper()
	var row store.Thread
	eventually(h.t, "the end of the task", func() (err error) {
		row, err = h.store.Thread(h.t.Context(), id)
		if err == nil && row.Status != status {
			err = fmt.Errorf("it is %s", row.Status)
		}
		return err
	})
	return row
}

// patience is how long a test waits for something that must happen.
const patience = 3 * time.Minute

// eventually calls wrong repeatedly until it returns nil.
func eventually(t testing.TB, what string, wrong func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = wrong(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// A site is a server on a house, and a logged-in client.
type site struct {
	*house
	srv    *Server
	host   string // and port
	entry  string // the one-time URL, used already
	client *http.Client
	stop   func() // ends the server and waits for it
}

// open starts a server. An empty addr means any port.
func (h *house) open(addr string) *site {
	h.t.Helper()
	return h.serve(addr, h.server())
}

// server returns a server on the house that is not serving yet.
func (h *house) server() *Server {
	c := h.controller()
	return New(Config{
		Store: h.store, Control: c, Reader: c.Reader(), Dirs: &taskdir.DirWriter{Store: h.store, Reader: c.Reader()},
		Workspace: h.dir, Home: h.home, ReadOnly: h.only, Person: "ann", Agents: c.Agents(), Consent: h.consent,
		Offline: h.offline, Demo: h.demo, Publish: h.publish,
		Signing: h.signing,
	})
}

// serve starts srv.
func (h *house) serve(addr string, srv *Server) *site {
	h.t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := Listen(addr)
	if err != nil {
		h.t.Fatal(err)
	}
	s := &site{house: h, host: l.Addr().String(), srv: srv}
	if h.beat != 0 {
		s.srv.beat = h.beat
	}
	ctx, cancel := context.WithCancel(context.Background())
	over, entry := make(chan error, 1), make(chan string, 1)
	go func() { over <- s.srv.Serve(ctx, l, func(url string) { entry <- url }) }()
	s.stop = sync.OnceFunc(func() {
		s.client.CloseIdleConnections()
		cancel()
		if err := <-over; err != nil {
			h.t.Errorf("serve: %v", err)
		}
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	s.client = &http.Client{Jar: jar, Transport: &http.Transport{MaxIdleConnsPerHost: 4}, Timeout: patience}
	h.t.Cleanup(s.stop)
	s.entry = <-entry
	res := s.do(http.MethodGet, s.entry[len("http://"+s.host):], nil, nil)
	if res.code != http.StatusOK {
		h.t.Fatalf("the one-time URL: %d %s", res.code, res.body)
	}
	return s
}

// A response is the response to a request.
type response struct {
	code int
	head http.Header
	body string
	at   *url.URL // where redirects led
}

// do sends a request and follows redirects.
func (s *site) do(method, path string, head http.Header, body []byte) response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.host+path, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for k, v := range head {
		req.Header[k] = v
	}
	res, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return response{res.StatusCode, res.Header, string(data), res.Request.URL}
}

func (s *site) get(path string) response {
	s.t.Helper()
	return s.do(http.MethodGet, path, http.Header{"Accept": {"text/html"}}, nil)
}

// post sends JSON as a page does.
func (s *site) post(path, body string) response {
	s.t.Helper()
	return s.do(http.MethodPost, path, http.Header{"Content-Type": {"application/json"}, "Sec-Fetch-Site": {"same-origin"},
		"Origin": {"http://" + s.host}}, []byte(body))
}

// data sends a GET to the API and returns the data of the response.
func (s *site) data(path string) any {
	s.t.Helper()
	res := s.get(path)
	var e struct {
		OK   bool `json:"ok"`
		Data any  `json:"data"`
	}
	if err := json.Unmarshal([]byte(res.body), &e); err != nil || !e.OK || res.code != http.StatusOK {
		s.t.Fatalf("%s: %d %s: %v", path, res.code, res.body, err)
	}
	return e.Data
}

// raw sends text unchanged, and returns the status and the whole response.
func (s *site) raw(text string) (code int, all string) {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.host)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
	data, err := io.ReadAll(conn)
	if err != nil && len(data) == 0 {
		s.t.Fatalf("%q: %v", text, err)
	}
	if _, err := fmt.Sscanf(string(data), "HTTP/1.%d %d", new(int), &code); err != nil {
		s.t.Fatalf("%q: %q: %v", text, data, err)
	}
	return code, string(data)
}

// cookie returns the Cookie header of a logged-in browser.
func (s *site) cookie() string {
	s.t.Helper()
	if s.srv.copy != nil { // a copy's secret is only in memory
		for _, c := range s.client.Jar.Cookies(&url.URL{Scheme: "http", Host: s.host}) {
			return c.Name + "=" + c.Value
		}
	}
	secret, err := os.ReadFile(filepath.Join(s.home, "ui.key"))
	if err != nil {
		s.t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(s.host)
	return "plait-" + port + "=" + strings.TrimSpace(string(secret))
}

// fill puts values into the path of a route, from the given row and gate where possible.
func fill(path string, row store.Thread, gateID string) string {
	id := row.ID
	if strings.Contains(path, "/gates/") {
		id = gateID
	}
	head := row.Head
	if head.IsZero() {
		head = dag.Sum([]byte("nothing"))
	}
	return strings.NewReplacer("{$}", "", "{id}", id, "{other}", id, "{hash}", head.String(), "{file}", "plait.js",
		"{name}", "solo", "{path...}", "shared/reports/a.md").Replace(path)
}
