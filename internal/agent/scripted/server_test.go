package scripted_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent/scripted"
)

// load writes a scenario to a file and loads it.
func load(t *testing.T, text string) *scripted.Scenario {
	t.Helper()
	file := filepath.Join(t.TempDir(), "own.yaml")
	write(t, file, text)
	sc, err := scripted.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

// do sends a request with a client that keeps no connections open.
func do(t *testing.T, method, url, thread, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Thread-Id", thread)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func ask(t *testing.T, s *scripted.Server, thread, prompt string) *http.Response {
	t.Helper()
	return do(t, http.MethodPost, s.URL()+"/responses", thread, `{"stream":true,"input":"`+prompt+`"}`)
}

func TestPaths(t *testing.T) {
	s := open(t, scripted.Config{})
	if !strings.HasPrefix(s.URL(), "http://127.0.0.1:") || !strings.HasSuffix(s.URL(), "/v1") {
		t.Errorf("URL %s", s.URL())
	}
	root := strings.TrimSuffix(s.URL(), "/v1")
	tests := []struct {
		name, method, path, body string
		status                   int
		want                     string
	}{
		{"models", "GET", "/v1/models", "", 200, scripted.Model},
		{"elsewhere", "GET", "/v1/threads", "", 404, "there is nothing at /v1/threads"},
		{"root", "GET", "/", "", 404, "nothing"},
		{"wrong method", "GET", "/v1/responses", "", 405, "want POST"},
		{"wrong JSON", "POST", "/v1/responses", "{", 400, "unexpected end of JSON"},
		{"no input", "POST", "/v1/responses", "{}", 400, "input must be"},
		{"no stream", "POST", "/v1/responses", `{"input":"x","stream":false}`, 400, "only streams"},
		{"fits", "POST", "/v1/responses", `{"input":"x"}`, 200, "response.completed"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			resp := do(t, tc.method, root+tc.path, "t", tc.body)
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != tc.status || !strings.Contains(string(body), tc.want) {
				t.Errorf("%d %s %v, want %d and %q", resp.StatusCode, body, err, tc.status, tc.want)
			}
			if resp.StatusCode != 200 && !json.Valid(body) {
				t.Errorf("%s is no JSON", body)
			}
		})
	}
}

func TestLogAndRequests(t *testing.T) {
	log := &lines{}
	var mu sync.Mutex
	var seen []scripted.Request
	s := open(t, scripted.Config{Log: log, Requests: func(r scripted.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r)
	}})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			req, err := http.NewRequest(http.MethodPost, s.URL()+"/responses", strings.NewReader(`{"input":"hello"}`))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Thread-Id", "thread")
			req.Close = true
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		})
	}
	all.Wait()
	if len(seen) != 8 || seen[0].Thread != "thread" || seen[0].Prompt() != "hello" || len(seen[0].Body) == 0 {
		t.Errorf("%d requests: %+v", len(seen), seen)
	}
	for line := range strings.Lines(log.String()) {
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		if _, err := time.Parse(time.RFC3339Nano, got["ts"].(string)); err != nil {
			t.Error(err)
		}
		delete(got, "ts")
		if want := (map[string]any{"thread": "thread", "scenario": "work", "turn": 1.0, "step": 1.0,
			"status": 200.0}); !equal(got, want) {
			t.Errorf("logged %v", got)
		}
	}
	if log.count() != 8 {
		t.Errorf("%d lines", log.count())
	}
}

func equal(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// TestTimes checks that a limited failure is counted separately for each thread.
func TestTimes(t *testing.T) {
	s := open(t, scripted.Config{Scenario: load(t, `
turns:
- steps:
  - fail: {status: 429, times: 2, headers: {Retry-After: "7"}, body: wait}
    items: [{answer: fine}]
`)})
	for _, thread := range []string{"one", "two"} {
		for i, want := range []int{429, 429, 200, 200} {
			resp := ask(t, s, thread, "x")
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != want {
				t.Errorf("request %d of %s: %d %s %v", i+1, thread, resp.StatusCode, body, err)
			}
			if want == 429 && (resp.Header.Get("Retry-After") != "7" || string(body) != "wait") {
				t.Errorf("%v %s", resp.Header, body)
			}
		}
	}
}

func TestCut(t *testing.T) {
	s := open(t, scripted.Config{})
	body, err := io.ReadAll(ask(t, s, "t", "SCENARIO=cut").Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("reading ended with %v", err)
	}
	if !bytes.Contains(body, []byte("output_text.delta")) || bytes.Contains(body, []byte("output_item.done")) {
		t.Errorf("%s", body)
	}
}

// TestSilent checks that a silent response sends nothing, and that Close ends it.
func TestSilent(t *testing.T) {
	s := open(t, scripted.Config{})
	resp := ask(t, s, "t", "SCENARIO=silent") // returns once the headers have arrived
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if body, _ := io.ReadAll(resp.Body); len(body) > 0 {
		t.Errorf("it said %q", body)
	}
	if _, err := http.Get(s.URL() + "/models"); err == nil {
		t.Error("a closed server answers")
	}
}

// TestSlow checks that pieces of a slow step arrive before the step is over, and
// that Close does not wait for the rest.
func TestSlow(t *testing.T) {
	s := open(t, scripted.Config{Scenario: load(t, "turns: [{steps: [{slow: 1h, items: [{say: x}, {say: y}]}]}]")})
	resp := ask(t, s, "t", "x")
	got, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || got != "event: response.created\n" {
		t.Errorf("%q %v", got, err)
	}
	began := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("closing took %v", took)
	}
}

func TestTooLong(t *testing.T) {
	s := open(t, scripted.Config{})
	pr, pw := io.Pipe()
	go func() {
		block := bytes.Repeat([]byte(" "), 1<<20)
		for range 65 {
			if _, err := pw.Write(block); err != nil {
				break
			}
		}
		_ = pw.Close()
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/responses", pr)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}
