// Package storetest defines what it means to be a store: a suite that every
// implementation of package store passes.
//
// It takes a function that opens a store in a directory, and reports test
// results. The suite uses nothing but the interfaces, and waits for things to
// happen rather than for time to pass. It never looks inside a directory.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// An Opener opens the store in dir. Opened twice, one directory gives two
// handles on one store, as two processes would have; they may indeed belong to
// other processes, and dir may be but a name for a store that is elsewhere.
type Opener func(t *testing.T, dir string) store.Store

// Run runs the suite.
func Run(t *testing.T, open Opener) {
	groups := []struct {
		name  string
		tests []test
	}{
		{"commit", commitTests},
		{"objects", objectTests},
		{"index", indexTests},
		{"journal", journalTests},
		{"log", logTests},
		{"task", taskTests},
		{"text", textTests},
		{"lease", leaseTests},
		{"fence", fenceTests},
		{"count", countTests},
		{"wish", requestTests},
		{"sweep", sweepTests},
		{"redact", redactTests},
		{"model", modelTests},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, x := range g.tests {
				t.Run(x.name, func(t *testing.T) {
					h := newHome(t, open)
					x.run(h)
					h.must(CheckLog(t.Context(), h.again()))
				})
			}
		})
	}
}

type test struct {
	name string
	run  func(h *home)
}

// A home is one test's directory and the first handle on the store in it.
type home struct {
	*testing.T
	store.Store
	ctx  context.Context
	dir  string
	open Opener
}

func newHome(t *testing.T, open Opener) *home {
	h := &home{T: t, ctx: t.Context(), dir: t.TempDir(), open: open}
	h.Store = h.again()
	return h
}

// again opens another handle on the same store.
func (h *home) again() store.Store {
	h.Helper()
	s := h.open(h.T, h.dir)
	h.Cleanup(func() {
		if err := s.Close(); err != nil {
			h.Errorf("close: %v", err)
		}
	})
	return s
}

// reopen closes the first handle and opens the store again.
func (h *home) reopen() {
	h.Helper()
	h.must(h.Store.Close())
	h.Store = h.again()
}

func (h *home) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// want fails the test unless err is target.
func (h *home) want(err, target error) {
	h.Helper()
	if !errors.Is(err, target) {
		h.Fatalf("got error %v, want %v", err, target)
	}
}

func (h *home) same(got, want any) {
	h.Helper()
	if d := cmp.Diff(want, got); d != "" {
		h.Fatalf("differs (-want +got):\n%s", d)
	}
}

// commit applies b.
func (h *home) commit(b store.Batch) {
	h.Helper()
	h.must(h.Commit(h.ctx, b))
}

// keep commits blobs with the given texts and returns their hashes.
func (h *home) keep(texts ...string) []dag.Hash {
	h.Helper()
	var b store.Batch
	var hs []dag.Hash
	for _, s := range texts {
		b.Objects = append(b.Objects, blob(s))
		hs = append(hs, dag.Sum([]byte(s)))
	}
	h.commit(b)
	return hs
}

// entry returns the entry that List yields for x.
func (h *home) entry(x dag.Hash) store.Entry {
	h.Helper()
	for e, err := range h.List(h.ctx) {
		h.must(err)
		if e.Hash == x {
			return e
		}
	}
	h.Fatalf("%s is not listed", x)
	return store.Entry{}
}

func (h *home) has(x dag.Hash) bool {
	h.Helper()
	ok, err := h.Has(h.ctx, x)
	h.must(err)
	return ok
}

// until repeats f until it returns true. It gives up after a minute.
func (h *home) until(what string, f func() bool) {
	h.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			h.Fatalf("waited in vain: %s", what)
		}
	}
}

func blob(text string) store.Object {
	return store.Object{Hash: dag.Sum([]byte(text)), Kind: store.Blob, Data: []byte(text)}
}

func node(text string) store.Object {
	o := blob(text)
	o.Kind = store.Node
	return o
}

// thread returns a running root thread at head.
func thread(id string, head dag.Hash) store.Thread {
	return store.Thread{ID: id, Task: id, Root: id, Kind: store.KindRoot, Start: head, Head: head, Status: store.Running}
}

// insert returns a batch that creates a thread whose start and head is a new node.
func insert(id string) (store.Batch, store.Thread) {
	o := node("start of " + id)
	t := thread(id, o.Hash)
	return store.Batch{Objects: []store.Object{o}, Threads: []store.ThreadChange{{Row: t}}}, t
}

// step returns a batch that moves t's head to a new node and records that in an
// event, and t after it.
func step(t store.Thread, text string) (store.Batch, store.Thread) {
	o := node(text)
	from := t.State()
	t.Head = o.Hash
	t.Steps++
	return store.Batch{
		Objects: []store.Object{o},
		Threads: []store.ThreadChange{{Row: t, From: from}},
		Events:  []store.Event{{Type: "step", Task: t.Task, Thread: t.ID}},
	}, t
}

func id(n int) string { return fmt.Sprintf("01J%023d", n) }
