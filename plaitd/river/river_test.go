package river_test

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/testing/dispatchtest"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/river"
)

// A cluster is a queue in its own database.
type cluster struct{ cfg river.Config }

func newCluster(t *testing.T, prefer time.Duration) cluster {
	t.Helper()
	c := cluster{river.Config{URL: pgtest.Shared(t).Database(t), Prefer: prefer, Again: 100 * time.Millisecond}}
	if changed, err := river.Migrate(t.Context(), c.cfg); err != nil || !changed {
		t.Fatalf("migrate: changed %v, %v", changed, err)
	}
	return c
}

func (c cluster) Engine(t testing.TB) dispatch.Engine {
	e, err := river.Open(context.WithoutCancel(t.Context()), c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// Wipe empties all tables.
func (c cluster) Wipe(t testing.TB) {
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, c.cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `TRUNCATE plait_river.river_job, plait_river.river_leader, `+
		`plait_river.river_queue`); err != nil {
		t.Fatal(err)
	}
}

func TestEngine(t *testing.T) {
	dispatchtest.Run(t, func(t *testing.T, prefer time.Duration) dispatchtest.Cluster { return newCluster(t, prefer) })
}

// TestMigrate brings the tables up to date once, and checks that missing ones are reported.
func TestMigrate(t *testing.T) {
	c := newCluster(t, 0)
	if changed, err := river.Migrate(t.Context(), c.cfg); err != nil || changed {
		t.Errorf("the second time: changed %v, %v", changed, err)
	}
	if err := river.Outdated(t.Context(), c.cfg); err != nil {
		t.Errorf("up to date: %v", err)
	}
	bare := c.cfg
	bare.Schema = "nothing"
	if err := river.Outdated(t.Context(), bare); err == nil {
		t.Error("no tables, and it says nothing")
	}
	e, err := river.Open(t.Context(), bare)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Serve(t.Context(), dispatch.Host{ID: "a"}, nil); err == nil {
		t.Error("it serves without tables")
	}
}

// TestAnnounced pokes many tasks at once: each is announced, so that no host finds it only when it looks again.
func TestAnnounced(t *testing.T) {
	c := newCluster(t, 0)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	conn, err := pgx.Connect(ctx, c.cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, `LISTEN "plait_river.river_insert"`); err != nil {
		t.Fatal(err)
	}
	const tasks = 50
	e := c.Engine(t)
	var pokes sync.WaitGroup
	for i := range tasks {
		pokes.Go(func() {
			if err := e.Poke(ctx, strconv.Itoa(i)); err != nil {
				t.Error(err)
			}
		})
	}
	pokes.Wait()
	for i := range tasks {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			t.Fatalf("after %d announcements of %d: %v", i, tasks, err)
		}
	}
}

// TestCutOff has a host cut off by the network while its transaction holds the lock on a task's job. The server
// ends it, and others can poke that task.
func TestCutOff(t *testing.T) {
	c := newCluster(t, 0)
	proxy := pgtest.NewProxy(t, pgtest.Shared(t))
	away := c
	away.cfg.URL, away.cfg.Try = proxy.URL(c.cfg.URL), time.Second
	cut, other := away.Engine(t), c.Engine(t)
	locked := make(chan struct{})
	var once sync.Once
	proxy.See(func(m pgtest.Message) pgtest.Act {
		if m.Back || m.Type != 'Q' || !bytes.Contains(m.Body, []byte("commit")) {
			return pgtest.Pass
		}
		once.Do(func() { close(locked) })
		return pgtest.Part
	})
	failed := make(chan error, 1)
	go func() { failed <- cut.Poke(context.WithoutCancel(t.Context()), "task") }()
	<-locked
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := other.Poke(ctx, "task"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		if err == nil {
			t.Error("a poke whose commit never arrived returned no error")
		}
	case <-ctx.Done():
		t.Error("a poke that was cut off never gave up")
	}
}

// moves is work of one thread, which prefers a missing host until told otherwise.
type moves struct {
	looked chan struct{} // receives at each look
	driven chan struct{}
	gone   *atomic.Bool
}

func (m moves) Reconcile(context.Context, string) (dispatch.Agenda, error) {
	ready := dispatch.Ready{Thread: "thread", Host: "gone"}
	if m.gone.Load() {
		ready.Host = ""
	}
	select {
	case m.looked <- struct{}{}:
	default:
	}
	return dispatch.Agenda{Drive: []dispatch.Ready{ready}}, nil
}

func (m moves) Drive(context.Context, string, *dispatch.Slot) error {
	select {
	case m.driven <- struct{}{}:
	default:
	}
	return nil
}

// TestLeavesTheQueueOfAHost: a drive queued for a host that it no longer prefers is immediately taken by another.
func TestLeavesTheQueueOfAHost(t *testing.T) {
	e := newCluster(t, time.Hour).Engine(t)
	m := moves{make(chan struct{}, 1), make(chan struct{}, 1), new(atomic.Bool)}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx, dispatch.Host{ID: "a"}, m) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	poke := func() {
		t.Helper()
		if err := e.Poke(ctx, "task"); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // at the second look, the first has queued the thread
		poke()
		<-m.looked
	}
	m.gone.Store(true)
	poke()
	select {
	case <-m.driven:
	case <-time.After(time.Minute):
		t.Error("it waits for a host that is not there")
	}
}

// takes is work of one thread, which is ready until it has been driven. Its token never changes.
type takes struct {
	taken chan struct{} // closed by a drive
	dies  chan struct{} // if set, a drive does nothing until this is closed
	done  *atomic.Bool
}

func (w takes) Reconcile(context.Context, string) (dispatch.Agenda, error) {
	if w.done.Load() {
		return dispatch.Agenda{Ended: true}, nil
	}
	return dispatch.Agenda{Drive: []dispatch.Ready{{Thread: "thread"}}, At: time.Now().Add(200 * time.Millisecond)}, nil
}

func (w takes) Drive(context.Context, string, *dispatch.Slot) error {
	close(w.taken)
	if w.dies != nil {
		<-w.dies
		return nil
	}
	w.done.Store(true)
	return nil
}

// TestDiesBeforeTheLease checks that another host drives the thread even if the host that took the drive died before
// it had the thread's lease, which leaves the token unchanged and the job running.
func TestDiesBeforeTheLease(t *testing.T) {
	c := newCluster(t, 2*time.Second)
	var done atomic.Bool
	dead := takes{make(chan struct{}), make(chan struct{}), &done}
	lives := takes{make(chan struct{}), nil, &done}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 2)
	serve := func(name string, w dispatch.Work) {
		e := c.Engine(t)
		go func() { served <- e.Serve(ctx, dispatch.Host{ID: name, Slots: dispatch.NewSlots(1, nil)}, w) }()
	}
	serve("a", dead)
	defer func() {
		close(dead.dies)
		stop()
		for range 2 {
			if err := <-served; err != nil {
				t.Error(err)
			}
		}
	}()
	if err := c.Engine(t).Poke(ctx, "task"); err != nil {
		t.Fatal(err)
	}
	<-dead.taken
	serve("b", lives)
	select {
	case <-lives.taken:
	case <-time.After(time.Minute):
		t.Error("it waits for a host that is dead")
	}
}
