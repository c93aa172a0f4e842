package web

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// TestHostsPage checks that users see what each host does, and what became of the work of a lost host.
func TestHostsPage(t *testing.T) {
	h := newHouse(t, nil)
	row := h.begin(asking, "Mend <b>the sum</b>")
	from := dag.Sum([]byte("a head"))
	began := store.Attempt{Thread: row.ID, From: from, Role: "plan", Agent: "codex", StartedAt: 1000}
	attempt := func(n int, host string, status store.AttemptStatus, of store.Attempt) store.AttemptChange {
		of.ID, of.N, of.Host, of.Status = of.Thread+"."+string(rune('0'+n)), n, host, status
		return store.AttemptChange{Row: of}
	}
	lost, other := began, began
	lost.EndedAt = 2000
	other.From = dag.Sum([]byte("another head"))
	err := h.store.Commit(t.Context(), store.Batch{Attempts: []store.AttemptChange{
		attempt(1, "alpha", store.AttemptDone, other), attempt(2, "alpha", store.AttemptInterrupted, lost),
		attempt(3, "beta", store.AttemptInterrupted, lost), attempt(4, "gamma", store.AttemptRunning, began),
	}})
	if err != nil {
		t.Fatal(err)
	}
	sick, err := h.store.Acquire(t.Context(), store.UnableLease("delta", "no space <b>left</b>"))
	if err != nil {
		t.Fatal(err)
	}
	defer sick.Release()
	srv := h.server()
	srv.cfg.Hosts = true
	s := h.serve("", srv)
	read := func() map[string]view.Host {
		var told struct{ Data struct{ Hosts []view.Host } }
		if err := json.Unmarshal([]byte(s.get("/api/v1/hosts").body), &told); err != nil {
			t.Fatal(err)
		}
		by := map[string]view.Host{}
		for _, host := range told.Data.Hosts {
			by[host.Name] = host
		}
		return by
	}
	type fate struct {
		Ended int
		Next  view.HostNext
		Alone bool
	}
	got := map[string]fate{}
	for name, host := range read() {
		f := fate{Ended: host.Ended}
		for _, w := range host.Lost {
			f.Next = *w.Next
		}
		for _, w := range host.Now {
			f.Alone = w.Alone
		}
		got[name] = f
	}
	want := map[string]fate{
		"alpha": {1, view.HostNext{Host: "beta", Attempt: row.ID + ".3", Status: store.AttemptInterrupted}, false},
		"beta":  {0, view.HostNext{Host: "gamma", Attempt: row.ID + ".4", Status: store.AttemptRunning}, false},
		"gamma": {Alone: true},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	page := s.get("/hosts").body
	for _, text := range []string{"Mend &lt;b&gt;the sum", "not responding", "interrupted on beta", "running on gamma",
		"1 attempt of", "worker delta: no space &lt;b&gt;left"} {
		if !strings.Contains(page, text) {
			t.Errorf("the page does not say %q", text)
		}
	}
	lease, err := h.store.Acquire(t.Context(), row.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	if read()["gamma"].Now[0].Alone {
		t.Error("who drives the task is not seen")
	}
	if page := s.get("/").body; !strings.Contains(page, `href="/hosts"`) {
		t.Error("nothing leads to the hosts")
	}
	if page := h.open("").get("/").body; strings.Contains(page, `href="/hosts"`) {
		t.Error("on a record of one machine there are hosts")
	}
}
