package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/view"
)

// atOnce sends the same POST n times concurrently, and counts the responses by status.
func (s *site) atOnce(n int, path, body string) map[int]int {
	s.t.Helper()
	var posts sync.WaitGroup
	var mu sync.Mutex
	got, begin := map[int]int{}, make(chan struct{})
	for range n {
		posts.Go(func() {
			<-begin
			res := s.post(path, body)
			mu.Lock()
			defer mu.Unlock()
			if got[res.code]++; res.code >= 500 {
				s.t.Errorf("%s: %d %s", path, res.code, res.body)
			}
		})
	}
	close(begin)
	posts.Wait()
	return got
}

// TestAtOnce sends the same request twenty times concurrently: one drives and receives the others' text, one
// reverts, one answers, and each fork is a complete task.
func TestAtOnce(t *testing.T) {
	const n = 20
	var under, most atomic.Int32
	waits := make(chan struct{})
	h := newHouse(t, map[string]scripted{"assistant": func(ctx context.Context, req agent.Request,
		emit func(agent.Event) error) (agent.Result, error) {
		if now := under.Add(1); now > most.Load() {
			most.Store(now)
		}
		defer under.Add(-1)
		if strings.Contains(req.Prompt, "wait") {
			select {
			case <-waits:
			case <-ctx.Done():
				return agent.Result{}, ctx.Err()
			}
		}
		return housetest.Answer(req, emit, "Well.")
	}, "plan": gatedAgents()["plan"], "work": gatedAgents()["work"]})
	s, row := h.open(""), h.chat("one")
	at := "/api/v1/tasks/" + row.ID

	if got := s.atOnce(n, at+"/resume", `{"text":"wait"}`); got[200] != n {
		t.Errorf("resume: %v", got)
	}
	if got := s.atOnce(n, at+"/revert", `{"at":"1"}`); got[409] != n {
		t.Errorf("revert of what is at work: %v", got)
	}
	if got := s.atOnce(n, "/api/v1/threads/"+row.ID+"/compact", `{}`); got[409] != n {
		t.Errorf("compact of what is at work: %v", got)
	}
	if got := s.atOnce(n, at+"/stop", `{}`); got[200] < 1 || got[200]+got[409] != n {
		t.Errorf("stop: %v", got)
	}
	eventually(t, "the stop", func() error {
		if s.srv.work.drives(row.ID) {
			return fmt.Errorf("it is driven")
		}
		return nil
	})
	if n := most.Load(); n != 1 {
		t.Errorf("%d agents were at work in one conversation", n)
	}
	close(waits)

	before := len(h.tasks())
	if got := s.atOnce(n, at+"/revert", `{"at":"1"}`); got[200] != 1 || got[409] != n-1 {
		t.Errorf("revert: %v", got)
	}
	if made := len(h.tasks()) - before; made != 1 || h.thread(row.ID).Status != store.Cancelled {
		t.Errorf("%d conversations came of it, the old one is %s", made, h.thread(row.ID).Status)
	}
	if got := s.atOnce(n, at+"/cancel", `{}`); got[200] != n {
		t.Errorf("cancel of what has ended: %v", got)
	}

	other := h.run(gated, "do it")
	if got := s.atOnce(n, "/api/v1/threads/"+other.ID+"/fork", `{"at":"1","inPlace":true}`); got[200] != n {
		t.Errorf("fork: %v", got)
	}
	forks := 0
	for _, one := range h.tasks() {
		if one.ForkedFrom != nil && one.ForkedFrom.Thread == other.ID {
			forks++
			h.gate(one.ID)
		}
	}
	if forks != n {
		t.Errorf("%d forks are there", forks)
	}
	if got := s.atOnce(n, "/api/v1/gates/"+h.gate(other.ID).ID+"/approve", `{}`); got[200] != 1 || got[409] != n-1 {
		t.Errorf("approve: %v", got)
	}
	eventually(t, "the next question", func() error {
		if g := h.gate(other.ID); g.Node != "port" {
			return fmt.Errorf("it is %s", g.Node)
		}
		return nil
	})
}

// tasks returns the roots of all tasks.
func (h *house) tasks() []store.Thread {
	h.t.Helper()
	rows, err := h.store.Threads(h.t.Context(), store.ThreadFilter{Kind: store.KindRoot})
	if err != nil {
		h.t.Fatal(err)
	}
	return rows
}

// TestGoneClient answers a gate for a client that disconnects before it gets a response: the
// task continues all the same.
func TestGoneClient(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	s := h.open("")
	ctx, leave := context.WithCancel(t.Context())
	h.store.afterCommit(func(committing context.Context) {
		leave()
		if committing.Done() != nil {
			<-committing.Done() // the server has noticed
		}
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+s.host+"/api/v1/gates/"+h.gate(row.ID).ID+"/approve", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if res, err := s.client.Do(req); err == nil {
		res.Body.Close()
	}
	<-ctx.Done()
	eventually(t, "the next question", func() error {
		gates, err := h.store.Gates(t.Context(), store.GateFilter{Task: row.ID, State: store.GateOpen})
		if err == nil && (len(gates) != 1 || gates[0].Node != "port") {
			err = fmt.Errorf("%+v", gates)
		}
		return err
	})
}

// TestEndInTheMiddle ends the server while it creates a task, after each of its commits: what
// exists can be resumed, and nothing else exists.
func TestEndInTheMiddle(t *testing.T) {
	for verb, body := range map[string]string{"fork": `{"at":"1","text":"two"}`, "revert": `{"at":"1"}`,
		"begin": `{"flow":"chat","prompt":"hello"}`} {
		for after := range 6 {
			t.Run(fmt.Sprint(verb, after), func(t *testing.T) {
				h := newHouse(t, gatedAgents())
				row := h.chat("one")
				s := h.open("")
				path := map[string]string{"fork": "/api/v1/threads/" + row.ID + "/fork",
					"revert": "/api/v1/tasks/" + row.ID + "/revert", "begin": "/api/v1/tasks"}[verb]
				ended := make(chan struct{})
				var commits atomic.Int32
				h.store.afterCommit(func(context.Context) {
					if commits.Add(1) == int32(after) {
						go func() { s.stop(); close(ended) }()
						<-s.srv.ended.Done()
					}
				})
				if after == 0 {
					go func() { s.stop(); close(ended) }()
				}
				req, err := http.NewRequest(http.MethodPost, "http://"+s.host+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				answer := ""
				if res, err := s.client.Do(req); err == nil {
					var e view.Envelope
					json.NewDecoder(res.Body).Decode(&e)
					if res.Body.Close(); e.Error != nil {
						answer = e.Error.Message
					}
				}
				h.store.afterCommit(nil)
				s.stop()
				if after == 0 {
					<-ended
				}
				again := h.open("")
				for _, one := range h.tasks() {
					if one.Ended() || one.Intent == store.IntentCancel {
						continue
					}
					if one.Status != store.Blocked {
						if strings.Contains(answer, "was made") && !strings.Contains(answer, one.ID) {
							t.Errorf("%s does not name %s", answer, one.ID)
						}
						again.asks("/api/v1/tasks/"+one.ID+"/resume", `{}`)
					}
					eventually(t, "the turn of the person", func() error {
						if now := h.thread(one.ID); now.Status != store.Blocked || again.srv.work.drives(one.ID) {
							return fmt.Errorf("it is %s", now.Status)
						}
						return nil
					})
				}
				if all := h.tasks(); len(all) > 2 {
					t.Errorf("there are %d tasks", len(all))
				}
			})
		}
	}
}
