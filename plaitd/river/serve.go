package river

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/record/store"
)

// reconcileArgs is a look at a task.
type reconcileArgs struct {
	Task  string `json:"task"`
	Later bool   `json:"later,omitempty"`
	Turn  int    `json:"turn,omitempty"` // distinguishes a queued one from those that run
}

func (reconcileArgs) Kind() string { return "reconcile" }

// driveArgs is a drive of a thread.
type driveArgs struct {
	Task   string   `json:"task" river:"unique"`
	Thread string   `json:"thread" river:"unique"`
	Token  int64    `json:"token" river:"unique"`
	Turn   int      `json:"turn,omitempty" river:"unique"` // distinguishes a queued one from one whose host has died
	Needs  []string `json:"needs,omitempty"`
	Host   string   `json:"host,omitempty"` // whose queue has it
}

func (driveArgs) Kind() string { return "drive" }

// sweepArgs is a look at all tasks.
type sweepArgs struct{}

func (sweepArgs) Kind() string { return "sweep" }

// once makes a job unique while it is queued or runs; one that has ended does not block another.
var once = river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning, rivertype.JobStateScheduled,
}}

const (
	unbounded   = 200             // concurrent drives on a host with unlimited slots
	looks       = 16              // concurrent looks at tasks besides them
	keepJobs    = time.Hour       // after they have ended
	serveAgain  = 2 * time.Second // when the database is unavailable
	fullAgain   = time.Second     // when a host declines, has no free slot, or lacks the labels; until River's next look
	fullWait    = 2 * time.Second // of a job for a slot, if the host's other queues have taken all
	lookAgain   = 5 * time.Second // for jobs that were not announced: in three queues, by idle hosts too
	insertTries = 30              // of a job's follow-ups, a second apart: then the sweep finds them
)

// Serve takes jobs until ctx ends, and returns once those that it took have ended.
func (e *Engine) Serve(ctx context.Context, host dispatch.Host, w dispatch.Work) error {
	h := &serving{engine: e, host: host, work: w, until: ctx, alarms: map[string]*time.Timer{}}
	defer h.still()
	defer h.drives.Wait()
	client, err := h.client()
	if err != nil {
		return err
	}
	calling := context.WithoutCancel(ctx)
	for {
		err := client.Start(calling)
		if err == nil {
			break
		}
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) && (pgErr.Code == "42P01" || pgErr.Code == "3F000") {
			return fmt.Errorf("serve the queue: schema %s has no tables: %w", e.cfg.Schema, err)
		}
		e.cfg.Log.Warn("queue is away", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(serveAgain):
		}
	}
	<-ctx.Done()
	if err := client.Stop(calling); err != nil {
		return fmt.Errorf("drain the queue: %w", err)
	}
	return nil
}

// client returns a client that takes jobs for the host.
func (h *serving) client() (*river.Client[pgx.Tx], error) {
	e, host, slots := h.engine, h.host, cmp.Or(h.host.Slots.Most(), unbounded)
	workers := river.NewWorkers()
	err := errors.Join(
		river.AddWorkerSafely(workers, river.WorkFunc(h.reconcile)),
		river.AddWorkerSafely(workers, river.WorkFunc(h.drive)),
		river.AddWorkerSafely(workers, river.WorkFunc(h.sweep)),
	)
	if err != nil {
		return nil, fmt.Errorf("serve the queue: %w", err)
	}
	queues := map[string]river.QueueConfig{anyQueue: {MaxWorkers: looks}, drivesQueue: {MaxWorkers: slots},
		hostQueue(host.ID): {MaxWorkers: slots}}
	for _, label := range host.Labels {
		queues[labelQueue(label)] = river.QueueConfig{MaxWorkers: slots}
	}
	client, err := river.NewClient(riverpgxv5.New(e.pool), &river.Config{
		Schema: e.cfg.Schema, Logger: e.cfg.Log, Workers: workers, Queues: queues, JobTimeout: -1, MaxAttempts: 1,
		FetchPollInterval:           lookAgain,
		CompletedJobRetentionPeriod: keepJobs, DiscardedJobRetentionPeriod: keepJobs, CancelledJobRetentionPeriod: keepJobs,
		PeriodicJobs: []*river.PeriodicJob{river.NewPeriodicJob(river.PeriodicInterval(e.cfg.Sweep),
			func() (river.JobArgs, *river.InsertOpts) {
				return sweepArgs{}, &river.InsertOpts{Queue: anyQueue, MaxAttempts: 1}
			}, &river.PeriodicJobOpts{RunOnStart: true})},
	})
	if err != nil {
		return nil, fmt.Errorf("serve the queue: %w", err)
	}
	return client, nil
}

// A serving is a host that is taking jobs.
type serving struct {
	engine *Engine
	host   dispatch.Host
	work   dispatch.Work
	until  context.Context // it takes nothing more once this has ended
	drives sync.WaitGroup

	mu     sync.Mutex
	alarms map[string]*time.Timer // by task
}

// alarm pokes a task when it must be looked at again. A job does the same in case this host dies, but River's leader
// releases those, and may have to be elected first: some 15 s later then.
func (h *serving) alarm(ctx context.Context, task string, a dispatch.Agenda) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.alarms[task]; old != nil {
		old.Stop()
		delete(h.alarms, task)
	}
	if a.Ended || a.At.IsZero() || h.alarms == nil {
		return
	}
	h.alarms[task] = time.AfterFunc(time.Until(a.At), func() {
		if err := h.engine.Poke(ctx, task); err != nil {
			h.engine.cfg.Log.Warn("queue is away", "error", err) // the job or the next sweep does it
		}
	})
}

// still stops the alarms.
func (h *serving) still() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.alarms {
		t.Stop()
	}
	h.alarms = nil
}

// sweep pokes all tasks that have not ended.
func (h *serving) sweep(ctx context.Context, _ *river.Job[sweepArgs]) error {
	if h.engine.cfg.Tasks == nil {
		return nil
	}
	tasks, err := h.engine.cfg.Tasks(ctx)
	for _, id := range tasks {
		err = errors.Join(err, h.engine.Poke(ctx, id))
	}
	return err
}

func (h *serving) reconcile(ctx context.Context, job *river.Job[reconcileArgs]) error {
	ctx = context.WithoutCancel(ctx)
	id := job.Args.Task
	a, err := h.work.Reconcile(ctx, id)
	if err != nil {
		h.engine.cfg.Log.Warn("look at task", "task", id, "error", err)
		a = dispatch.Agenda{At: time.Now().Add(h.engine.cfg.Again)}
	}
	h.alarm(ctx, id, a)
	if a.Ended {
		return nil
	}
	for _, r := range a.Drive {
		if r.Host != "" {
			if soon := time.Now().Add(h.engine.cfg.Prefer); a.At.IsZero() || soon.Before(a.At) {
				a.At = soon // it may have to go elsewhere
			}
		}
		h.insist(ctx, func() error { return h.engine.queue(ctx, id, r) })
	}
	if !a.At.IsZero() {
		h.insist(ctx, func() error { return h.engine.reconcileAt(ctx, id, a.At) })
	}
	return nil
}

// queue puts a drive into the most suitable queue. One that has waited too long for its preferred host, or for
// the one that has taken it, goes to any.
func (e *Engine) queue(ctx context.Context, task string, r dispatch.Ready) error {
	args := driveArgs{Task: task, Thread: r.Thread, Token: r.Token, Needs: r.Needs, Host: r.Host}
	for {
		queue := drivesQueue
		switch {
		case args.Host != "":
			queue = hostQueue(args.Host)
		case len(r.Needs) > 0:
			queue = labelQueue(slices.Min(r.Needs))
		}
		got, err := e.insert(ctx, args, river.InsertOpts{Queue: queue, Priority: r.Turn(priorities)})
		if err != nil {
			return fmt.Errorf("queue thread %s: %w", r.Thread, err)
		}
		old := got.Job
		if !got.UniqueSkippedAsDuplicate {
			return nil
		}
		if old.State == rivertype.JobStateRunning {
			if old.AttemptedAt == nil || time.Since(*old.AttemptedAt) < e.cfg.Prefer {
				return nil // its host is about to take the thread's lease, which changes the token
			}
			args.Turn++ // its host died before that
			continue
		}
		var was driveArgs
		if err := json.Unmarshal(old.EncodedArgs, &was); err != nil {
			return fmt.Errorf("queue thread %s: %w", r.Thread, err)
		}
		same := slices.Equal(was.Needs, r.Needs)
		if same && old.Priority <= r.Turn(priorities) && !strings.HasPrefix(old.Queue, hostQueues) {
			return nil
		}
		if same && r.Host != "" && old.Queue == hostQueue(r.Host) {
			if time.Since(old.CreatedAt) < e.cfg.Prefer {
				return nil
			}
			args.Host = ""
		}
		if err := e.remove(ctx, old.ID); err != nil { // from other hosts' queue, or a no longer preferred one's
			return err
		}
	}
}

func (h *serving) drive(ctx context.Context, job *river.Job[driveArgs]) error {
	ctx = context.WithoutCancel(ctx)
	if !h.host.Has(job.Args.Needs) {
		return river.JobSnooze(fullAgain)
	}
	slot := h.slot()
	if slot == nil {
		return river.JobSnooze(fullAgain)
	}
	ended := make(chan error, 1)
	h.drives.Go(func() { ended <- h.driven(ctx, job.Args, slot) })
	select {
	case err := <-ended:
		return err
	case <-slot.Paused(): // River takes another job in its place; the thread's lease keeps others from this one
		return nil
	}
}

// slot takes one of the host's slots. A queue does not know what the others have taken: until there is a slot, the
// queue's worker waits for a while, rather than take one job after the other. It returns nil if there is none.
func (h *serving) slot() *dispatch.Slot {
	late := time.After(fullWait)
	for {
		if slot := h.host.Slots.Take(); slot != nil {
			return slot
		}
		full := h.host.Slots.Full()
		if full == nil {
			continue
		}
		select {
		case <-full:
		case <-late:
			return nil
		case <-h.until.Done():
			return nil
		}
	}
}

// driven drives a thread, and has its task looked at.
func (h *serving) driven(ctx context.Context, d driveArgs, slot *dispatch.Slot) error {
	err := h.work.Drive(ctx, d.Thread, slot)
	slot.Release()
	if errors.Is(err, dispatch.ErrBusy) {
		return river.JobSnooze(fullAgain)
	}
	var at time.Time
	var held *store.HeldError
	if err != nil && !errors.As(err, &held) {
		h.engine.cfg.Log.Warn("drive thread", "thread", d.Thread, "error", err)
		at = time.Now().Add(h.engine.cfg.Again)
	}
	h.insist(ctx, func() error { return h.engine.reconcileAt(ctx, d.Task, at) })
	return nil
}

// priorities is how many River has, from 1.
const priorities = 4

// drivesQueue has the drives that any host may take.
const drivesQueue = "drives"

// insist does a job's follow-up, even if the database is unavailable for a while.
func (h *serving) insist(ctx context.Context, do func() error) {
	for try := range insertTries {
		err := do()
		if err == nil {
			return
		}
		if try == 0 {
			h.engine.cfg.Log.Warn("queue is away", "error", err)
		}
		time.Sleep(time.Second)
	}
}
