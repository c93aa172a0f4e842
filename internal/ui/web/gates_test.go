package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
)

var resume = control.Resume{}

// TestAnswers continues a task that is not driven by answering, until it ends.
func TestAnswers(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	other := h.gate(h.run(gated, "another").ID)
	s := h.open("")
	g := h.gate(row.ID)
	res := s.post("/api/v1/gates/"+g.ID+"/approve", `{"text":"go on"}`)
	var v struct {
		Schema string
		Data   struct {
			store.Gate
			Driven bool
		}
	}
	if err := json.Unmarshal([]byte(res.body), &v); err != nil || res.code != http.StatusOK || !v.Data.Driven ||
		v.Schema != "plait.gate.approve/1" {
		t.Fatalf("%d %s: %v", res.code, res.body, err)
	}
	g = v.Data.Gate
	if g.State != store.GateApproved || g.Via != store.ViaWeb || g.By != "ann" || g.Text != "go on" ||
		g.Grant != store.GrantOnce {
		t.Errorf("the answer: %+v", g)
	}
	for _, path := range []string{"approve", "deny"} {
		if res := s.post("/api/v1/gates/"+g.ID+"/"+path, `{}`); res.code != http.StatusConflict {
			t.Errorf("%s again: %d %s", path, res.code, res.body)
		}
	}
	if kept, err := h.store.Gate(t.Context(), other.ID); err != nil || kept.State != store.GateOpen {
		t.Errorf("another gate is %s: %v", kept.State, err)
	}
	var question store.Gate
	eventually(t, "the question", func() error {
		open, err := h.store.Gates(t.Context(), store.GateFilter{Task: row.ID, State: store.GateOpen})
		if err != nil || len(open) != 1 || open[0].Kind != store.GateInput {
			return fmt.Errorf("%+v: %v", open, err)
		}
		question = open[0]
		return nil
	})
	for path, want := range map[string]int{"approve": 400, "deny": 400, "answer": 400} {
		if res := s.post("/api/v1/gates/"+question.ID+"/"+path, `{}`); res.code != want {
			t.Errorf("%s without words: %d", path, res.code)
		}
	}
	if res := s.post("/api/v1/gates/"+question.ID+"/answer", `{"text":"  "}`); res.code != http.StatusBadRequest {
		t.Errorf("an empty answer: %d", res.code)
	}
	if res := s.post("/api/v1/gates/"+other.ID+"/answer", `{"text":"yes"}`); res.code != http.StatusBadRequest {
		t.Errorf("words for an approval: %d", res.code)
	}
	for _, id := range []string{"g-0000000000", "x", question.ID[:6]} {
		if res := s.post("/api/v1/gates/"+id+"/approve", `{}`); res.code != http.StatusNotFound {
			t.Errorf("gate %s: %d", id, res.code)
		}
	}
	if res := s.post("/api/v1/gates/"+question.ID+"/answer", `{"text":"8080"}`); res.code != http.StatusOK {
		t.Fatalf("answer: %d %s", res.code, res.body)
	}
	h.ends(row.ID, store.Completed)
	if res := s.post("/api/v1/tasks/"+row.ID+"/resume", `{}`); res.code != http.StatusConflict {
		t.Errorf("resume of what has ended: %d %s", res.code, res.body)
	}
	if res := s.post("/api/v1/gates/"+other.ID+"/deny", `{"text":"no"}`); res.code != http.StatusOK {
		t.Fatalf("deny: %d %s", res.code, res.body)
	}
	h.ends(other.Task, store.Failed)
	if kept, err := h.store.Gate(t.Context(), other.ID); err != nil || kept.State != store.GateRejected ||
		kept.Via != store.ViaWeb || kept.Text != "no" {
		t.Errorf("%+v: %v", kept, err)
	}
}

// TestOneAnswer answers a gate many times concurrently.
func TestOneAnswer(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	g, a, b := h.gate(row.ID), h.open(""), h.open("")
	codes := make(chan int, 16)
	for i := range cap(codes) {
		go func() {
			codes <- []*site{a, b}[i%2].post("/api/v1/gates/"+g.ID+"/"+[]string{"approve", "deny"}[i/2%2], `{}`).code
		}()
	}
	got := map[int]int{}
	for range cap(codes) {
		got[<-codes]++
	}
	if got[http.StatusOK] != 1 || got[http.StatusConflict] != cap(codes)-1 {
		t.Errorf("answers: %v", got)
	}
}

// TestTwoServers checks that of two servers on a store, each sees what the other does, and only
// one drives.
func TestTwoServers(t *testing.T) {
	begun, let := make(chan struct{}), make(chan struct{})
	var runs sync.Map
	agents := map[string]scripted{"work": func(ctx context.Context, req agent.Request,
		emit func(agent.Event) error) (agent.Result, error) {
		if _, again := runs.LoadOrStore(req.Attempt, true); again {
			return agent.Result{}, fmt.Errorf("attempt %s runs twice", req.Attempt)
		}
		select {
		case begun <- struct{}{}:
		case <-ctx.Done():
			return agent.Result{}, ctx.Err()
		}
		select {
		case <-let:
		case <-ctx.Done():
			return agent.Result{}, ctx.Err()
		}
		return housetest.Answer(req, emit, "---\n$status: done\n---\n")
	}}
	h := newHouse(t, agents)
	row := h.begin(chatty, "work")
	a, b := h.open(""), h.open("")
	if a.cookie()[len("plait-00000"):] == "" || a.host == b.host {
		t.Fatal("the servers are one")
	}
	follow := b.follow("?task="+row.ID+"&after=0", "")
	if res := a.post("/api/v1/tasks/"+row.ID+"/resume", ``); res.code != http.StatusOK {
		t.Fatalf("resume: %d %s", res.code, res.body)
	}
	<-begun
	for _, s := range []*site{a, b} {
		if res := s.post("/api/v1/tasks/"+row.ID+"/resume", `{}`); res.code != http.StatusConflict {
			t.Errorf("resume of what is driven: %d %s", res.code, res.body)
		}
	}
	let <- struct{}{}
	follow.until("task.completed")
	// Cancelled by a server other than the one that drives it.
	row = h.begin(chatty, "work")
	a.post("/api/v1/tasks/"+row.ID+"/resume", `{}`)
	<-begun
	if res := b.post("/api/v1/tasks/"+row.ID+"/cancel", `{}`); res.code != http.StatusOK {
		t.Errorf("cancel: %d %s", res.code, res.body)
	}
	h.ends(row.ID, store.Cancelled)
	// Not driven.
	row = h.begin(chatty, "work")
	if res := b.post("/api/v1/tasks/"+row.ID+"/cancel", `{}`); res.code != http.StatusOK {
		t.Errorf("cancel: %d %s", res.code, res.body)
	}
	h.ends(row.ID, store.Cancelled)
	// A task that a server drives when it ends can be resumed by another server.
	row = h.begin(chatty, "work")
	a.post("/api/v1/tasks/"+row.ID+"/resume", `{}`)
	<-begun
	a.stop()
	if got := b.data("/api/v1/tasks/" + row.ID).(map[string]any)["status"]; got != "interrupted" {
		t.Errorf("it is %v", got)
	}
	if res := b.post("/api/v1/tasks/"+row.ID+"/resume", `{"text":"and more"}`); res.code != http.StatusOK {
		t.Errorf("resume: %d %s", res.code, res.body)
	}
	<-begun
}
