package temporal

import (
	"errors"
	"fmt"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/plait-run/plait/internal/engine/dispatch"
)

// Names that Temporal stores. Code that would replay a running workflow differently gets new types, and its
// own ids: workflows of the old types may be terminated at any time.
const (
	taskType          = "plait.task.v1"
	driveType         = "plait.drive.v1"
	reconcileActivity = "Reconcile"
	driveActivity     = "Drive"
	pokeSignal        = "poke"
)

const (
	mostDrives  = 500              // concurrent, of a task: a workflow may have 2,000 children
	mostLooks   = 1000             // in one run of a workflow; each is about 12 events of 51,200
	mostTries   = 20               // of a drive if hosts decline
	queuePause  = 10 * time.Minute // after which a queued drive is checked for being still wanted
	longest     = 365 * 24 * time.Hour
	longestLook = 5 * time.Minute // of one call of Reconcile
	longestWait = 30 * time.Second
)

// A loop is the code of the workflows. It decides nothing about a task and has no state: every run begins by asking.
type loop struct {
	prefix                         string
	prefer, again, heartbeat, look time.Duration
}

// Task queues, and the ids of workflows.
func (l loop) tasks() string             { return l.prefix + "/tasks" }
func (l loop) any() string               { return l.prefix + "/any" }
func (l loop) host(id string) string     { return l.prefix + "/host/" + id }
func (l loop) label(label string) string { return l.prefix + "/label/" + label }
func (l loop) taskID(task string) string { return l.prefix + "/task/" + task }
func (l loop) driveID(d drive) string {
	return fmt.Sprintf("%s/drive/%s/%d", l.prefix, d.Thread, d.Token)
}
func (l loop) pause(n int) time.Duration { return min(l.again<<min(n, 10), longestWait) }

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// An agenda is dispatch.Agenda as it is sent: one machine's clock time means nothing on another.
type agenda struct {
	Ended bool
	Drive []dispatch.Ready
	Look  bool          // whether to look at the task again
	After time.Duration // how long until then
}

// A drive is the argument of its workflow.
type drive struct {
	Task string
	dispatch.Ready
}

// driving is a drive that this run has started and that has not ended.
type driving struct {
	thread string
	token  int64
	end    workflow.ChildWorkflowFuture
	wanted bool // another drive was wanted while this one was ending
}

// run is one run of the workflow of a task.
type run struct {
	loop
	task   string
	drives []*driving
	due    time.Time // when to look again; zero: when it is poked
	failed int       // consecutive looks that failed
}

// taskLoop is the workflow of a task: look, start what is ready, and wait for news.
func (l loop) taskLoop(ctx workflow.Context, task string) error {
	r := &run{loop: l, task: task}
	pokes := workflow.GetSignalChannel(ctx, pokeSignal)
	for looks := 1; ; looks++ {
		for pokes.ReceiveAsync(nil) {
		}
		ended, err := r.reconcile(ctx)
		if err != nil {
			return err
		}
		if ended && pokes.Len() == 0 {
			return nil
		}
		if !ended {
			if err := r.wait(ctx, pokes); err != nil {
				return err
			}
		}
		if looks == mostLooks || workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return workflow.NewContinueAsNewError(ctx, taskType, task)
		}
	}
}

// reconcile looks at the task once, and starts the drives that are due.
func (r *run) reconcile(ctx workflow.Context) (ended bool, err error) {
	var a agenda
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: r.tasks(), StartToCloseTimeout: longestLook, HeartbeatTimeout: r.heartbeat,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	}), reconcileActivity, r.task).Get(ctx, &a)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err != nil {
		r.due = workflow.Now(ctx).Add(r.pause(r.failed))
		r.failed++
		return false, nil
	}
	r.failed, r.due = 0, time.Time{}
	if a.Look {
		r.due = workflow.Now(ctx).Add(a.After)
	}
	for _, ready := range a.Drive {
		r.start(ctx, ready)
	}
	return a.Ended, nil
}

// start starts a drive that is not already running.
func (r *run) start(ctx workflow.Context, ready dispatch.Ready) {
	for _, d := range r.drives {
		if d.thread == ready.Thread && d.token == ready.Token {
			d.wanted = true
			return
		}
	}
	if len(r.drives) == mostDrives {
		return // the end of one of them looks again
	}
	d := drive{r.task, ready}
	end := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: r.driveID(d), TaskQueue: r.tasks(),
		ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	}), driveType, d)
	if err := end.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
		r.due = sooner(r.due, workflow.Now(ctx).Add(r.look)) // an earlier run has started it
		return
	}
	r.drives = append(r.drives, &driving{thread: ready.Thread, token: ready.Token, end: end})
}

// wait waits until the task must be looked at: it is poked, a drive has ended, or it is time.
func (r *run) wait(ctx workflow.Context, pokes workflow.ReceiveChannel) error {
	for look := false; !look; {
		news := workflow.NewSelector(ctx)
		news.AddReceive(pokes, func(workflow.ReceiveChannel, bool) { look = true })
		for _, d := range r.drives {
			news.AddFuture(d.end, func(workflow.Future) { look = r.ended(ctx, d) })
		}
		timing, cancel := workflow.WithCancel(ctx)
		if !r.due.IsZero() {
			timer := workflow.NewTimer(timing, max(r.due.Sub(workflow.Now(ctx)), 0))
			news.AddFuture(timer, func(workflow.Future) { look = true })
		}
		news.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) { look = true })
		news.Select(ctx)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// ended records that a drive has ended, and reports whether to look now. If all went well the host has poked.
func (r *run) ended(ctx workflow.Context, d *driving) bool {
	full := len(r.drives) == mostDrives
	for i := range r.drives {
		if r.drives[i] == d {
			r.drives = append(r.drives[:i:i], r.drives[i+1:]...)
			break
		}
	}
	var again bool
	if err := d.end.Get(ctx, &again); err != nil || again {
		r.due = sooner(r.due, workflow.Now(ctx).Add(r.again))
		return false
	}
	return d.wanted || full
}

// What became of a drive.
const (
	driven   = "driven"   // and the task is poked
	again    = "again"    // another host has the lease, or the task could not be poked
	declined = "declined" // the host would not take it
)

// driveLoop is the workflow of a drive: one call on a host that takes it. It reports whether to look at the task
// again after a while.
func (l loop) driveLoop(ctx workflow.Context, d drive) (lookAgain bool, err error) {
	began := workflow.Now(ctx)
	for try := range mostTries {
		queue, patience := l.queue(d.Ready, try), queuePause
		if left := l.prefer - workflow.Now(ctx).Sub(began); d.Host != "" && left > 0 {
			queue, patience = l.host(d.Host), left
		}
		var became string
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue: queue, ScheduleToStartTimeout: patience, StartToCloseTimeout: longest, HeartbeatTimeout: l.heartbeat,
			RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}, Priority: priority(d),
		}), driveActivity, d).Get(ctx, &became)
		var late *temporal.TimeoutError
		switch {
		case errors.As(err, &late) && late.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START:
			if patience == queuePause {
				return true, nil
			}
		case err != nil:
			return false, err
		case became != declined:
			return became == again, nil
		default:
			if err := workflow.Sleep(ctx, l.pause(try)); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// priorities is how many Temporal has, from 1.
const priorities = 5

// priority returns the priority of a drive. A server that knows fairness also shares each of them among tasks.
func priority(d drive) temporal.Priority {
	return temporal.Priority{PriorityKey: d.Turn(priorities), FairnessKey: d.Task}
}

// queue returns a queue of hosts with one of the labels that a thread needs; each try uses the next label.
func (l loop) queue(r dispatch.Ready, try int) string {
	if len(r.Needs) == 0 {
		return l.any()
	}
	return l.label(r.Needs[try%len(r.Needs)])
}
