package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/internal/testing/storetest"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// TestCrashes stops Postgres at random, as in a crash, while writers on three handles work under
// leases: none of them notices, and each step is there exactly once.
func TestCrashes(t *testing.T) {
	t.Parallel()
	crashes := soak.Rounds(t, 4)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	server := pgtest.Start(t, pgtest.Config{})
	url := newRecord(t, server)
	var handles []store.Store
	for range 3 {
		handles = append(handles, open(t, postgres.Config{URL: url, Try: 3 * time.Second, Look: 200 * time.Millisecond}))
	}
	w := write(t, handles, 9)
	// One reader follows, as a page does: it sees each position once, in order.
	read := make(chan int64)
	go func() {
		var pos int64
		for !w.stop.Load() {
			events, err := handles[0].Events(t.Context(), pos, store.EventFilter{Limit: 500})
			if err != nil {
				t.Errorf("read: %v", err)
				break
			}
			for _, e := range events {
				if pos++; e.Pos != pos {
					t.Errorf("after %d comes %d", pos-1, e.Pos)
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
		read <- pos
	}()
	var log storetest.Witness
	for range crashes {
		time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
		server.Stop(pgtest.Immediate)
		time.Sleep(time.Duration(rng.IntN(700)) * time.Millisecond)
		server.Start()
		w.more(t, 1) // progress is a promise too: something is committed before the next crash
		if err := log.Glance(t.Context(), handles[0]); err != nil {
			t.Error(err)
		}
	}
	w.end()
	if <-read == 0 {
		t.Error("nothing was read")
	}
	check(t, handles[1], w.lines...)
	if err := log.See(t.Context(), handles[1]); err != nil {
		t.Error(err)
	}
	soak.Figure(t, "%d crashes of Postgres, %d reported steps of %d writers, each there once", crashes, w.steps.Load(),
		len(w.lines))
}

// TestFullDisk fills the server's disk: a commit fails and leaves nothing, what was reported
// committed is there, and once there is room the same handle continues.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for round := range soak.Rounds(t, 1) {
		server := pgtest.Start(t, pgtest.Config{Disk: "110m",
			Settings: map[string]string{"min_wal_size": "32MB", "max_wal_size": "32MB"}})
		url := newRecord(t, server)
		s := open(t, postgres.Config{URL: url, Patience: 3 * time.Second, Try: time.Second})
		l, err := begin(t.Context(), s, id(1))
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.NewChaCha8([32]byte{byte(round)})
		data := make([]byte, 200<<10)
		var kept []store.Object
		for n := 0; err == nil; n++ {
			rng.Read(data)
			o := store.Object{Hash: dag.Sum(data), Kind: store.Blob, Data: append([]byte(nil), data...)}
			if err = s.Commit(t.Context(), store.Batch{Objects: []store.Object{o}}); err == nil {
				kept = append(kept, o)
				err = l.step(t.Context(), s, fmt.Sprintf("fill-%d", n))
			}
			if n > 2000 {
				t.Fatal("the disk does not fill")
			}
		}
		t.Logf("after %d objects: %v", len(kept), err)
		if !errors.Is(err, syscall.ENOSPC) && server.Answers() {
			t.Errorf("a full disk was told as: %v", err)
		}
		server.Grow("400m")
		if !server.Answers() { // a server that cannot write its log ends
			server.Stop(pgtest.Immediate)
			server.Start()
		}
		// The step whose outcome is unknown was committed, or not.
		l.heed(t, s)
		for n := range 5 {
			if err := l.step(t.Context(), s, fmt.Sprintf("room-%d", n)); err != nil {
				t.Fatalf("with room again: %v", err)
			}
		}
		for _, o := range kept {
			if _, err := s.Get(t.Context(), o.Hash); err != nil {
				t.Errorf("what was kept: %v", err)
			}
		}
		check(t, s, l)
	}
	soak.Figure(t, "a full disk of the server: nothing reported is lost, and with room it goes on")
}
