package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/ui/cli"
	"github.com/plait-run/plait/internal/view"
)

// What happens to attempts is counted where they are committed.
func TestMeteredAttempts(t *testing.T) {
	m := newMetered()
	change := func(thread string, from, to store.AttemptStatus, kind store.FailureKind) {
		a := store.Attempt{ID: thread + ".1", Thread: thread, Status: to}
		if kind != "" {
			a.Failure = &store.Failure{Kind: kind}
		}
		m.committed(store.AttemptChange{Row: a, From: from})
	}
	for _, thread := range []string{"x", "y", "z"} {
		change(thread, "", store.AttemptRunning, "")
	}
	change("x", store.AttemptRunning, store.AttemptFailed, "limit")
	change("y", store.AttemptRunning, store.AttemptInterrupted, "infra")
	if got := m.agents(); got != 1 {
		t.Errorf("%d agents run", got)
	}
	if got := m.takeovers.Load(); got != 0 {
		t.Errorf("%d takeovers of its own", got)
	}
	change("other", store.AttemptRunning, store.AttemptInterrupted, "infra")
	if got := m.takeovers.Load(); got != 1 {
		t.Errorf("%d takeovers", got)
	}
	if n := testutil.CollectAndCount(m.failures); n != 1 || testutil.ToFloat64(m.failures.WithLabelValues("limit")) != 1 {
		t.Error("the failure is not counted by its kind")
	}
	l := &meteredLease{Lease: lostLease{}, of: m, thread: "z"}
	l.Release()
	l.Release()
	if m.lost.Load() != 1 || m.agents() != 0 {
		t.Errorf("%d leases lost, %d agents run", m.lost.Load(), m.agents())
	}
}

type lostLease struct{ store.Lease }

func (lostLease) Lost() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (lostLease) Release() error { return nil }

// Without an answer of the record, metrics say what else they know.
func TestMetricsWithoutTheRecord(t *testing.T) {
	waiting := []view.Waiting{{Needs: "gpu", Drives: 2, Oldest: time.Hour}}
	var away error
	var unable error
	counts := control.Counts{Drives: 7, GivenBack: map[string]int64{engine.AtFiles: 3}}
	serve := newMetered().serve(cli.Measured{Counts: func() control.Counts { return counts }, Slots: 4,
		Unable: func() error { return unable },
		Dirs:   []string{t.TempDir(), "/does/not/exist"}, Version: "v1",
		Free: func(dir string) (int64, error) {
			_, err := os.Stat(dir)
			return 1 << 30, err
		},
		Waiting: func(context.Context) ([]view.Waiting, error) { return waiting, away }})
	scrape := func() string {
		out := httptest.NewRecorder()
		serve.ServeHTTP(out, httptest.NewRequest("GET", "/metrics", nil))
		if out.Code != 200 {
			t.Errorf("the answer is %d: %s", out.Code, out.Body)
		}
		return out.Body.String()
	}
	for _, want := range []string{
		"plait_waiting_drives{labels=\"gpu\"} 2\n", "plait_waiting_drives{labels=\"\"} 0\n",
		"plait_waiting_oldest_seconds{labels=\"gpu\"} 36",
		"plait_worker_given_back_total{at=\"workspace\"} 0\n", "plait_worker_given_back_total{at=\"files\"} 3\n",
		"plait_worker_given_back_total{at=\"agent\"} 0\n", "plait_worker_unable 0\n",
		"plait_worker_slots 4\n", "plait_worker_disk_free_bytes{directory=",
		"plait_build_info{goversion=", "version=\"v1\"} 1\n",
	} {
		if got := scrape(); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	unable, away = errors.New("the disk is full"), errors.New("away")
	if got := scrape(); !strings.Contains(got, "\nplait_worker_unable 1\n") {
		t.Errorf("the worker cannot work:\n%s", got)
	}
	if got := scrape(); strings.Contains(got, "waiting") || !strings.Contains(got, "\nplait_worker_drives_total 7\n") {
		t.Errorf("without the record:\n%s", got)
	}
}
