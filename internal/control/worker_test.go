package control

import (
	"context"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/store/mem"
)

// A thread waits for the worker that has its files only while that worker serves.
func TestNothingWaitsForAWorkerThatIsGone(t *testing.T) {
	s := mem.New(mem.Config{})
	defer s.Close()
	w := NewWorker(WorkerConfig{Store: s})
	prefers := func() string {
		t.Helper()
		ready, err := w.ready(t.Context(), store.Thread{ID: "root"}, engine.Agenda{Drive: []string{"x", "y"}, Hosts: []string{"a", ""}})
		if err != nil || len(ready) != 2 || ready[1].Host != "" {
			t.Fatalf("%v, %v", ready, err)
		}
		return ready[0].Host
	}
	if host := prefers(); host != "" {
		t.Errorf("the thread prefers %q before that serves", host)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.Present(ctx, "a"); close(ended) }()
	for prefers() != "a" { // until it serves
		time.Sleep(time.Millisecond)
	}
	end()
	<-ended
	if host := prefers(); host != "" {
		t.Errorf("the thread prefers %q when that is gone", host)
	}
}
