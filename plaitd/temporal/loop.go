package temporal

import (
	"errors"
	"fmt"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/plait-run/plait/internal/dispatch"
)

// Names that Temporal keeps. Code that would replay a running workflow in another way gets new types, and ids
// of its own: those of the old may be terminated at any time.
const (
	taskType          = "plait.task.v1"
	driveType         = "plait.drive.v1"
	reconcileActivity = "Reconcile"
	driveActivity     = "Drive"
	pokeSignal        = "poke"
)

const (
	mostDrives  = 500              // of a task at once: a workflow may have 2,000 children
	mostLooks   = 1000             // in one run of a workflow; each is some 12 events of 51,200
	mostTries   = 20               // of a drive that hosts decline
	queuePause  = 10 * time.Minute // after which it is asked whether a drive that waits in a queue is still wanted
	longest     = 365 * 24 * time.Hour
	longestLook = 5 * time.Minute // of one call of Reconcile
	longestWait = 30 * time.Second
)

// A loop is the code of the workflows. It decides nothing of a task, and has no state: every run begins by asking.
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

// An agenda is dispatch.Agenda as it is sent: a time on one machine's clock means nothing on another's.
type agenda struct {
	Ended bool
	Drive []dispatch.Ready
	Look  bool          // the task is to be looked at again
	After time.Duration // then
}

// A drive is what the workflow of one is given.
type drive struct {
	Task string
	dispatch.Ready
}

// driving is a drive that this run has started and that has not ended.
type driving struct {
	thread string
	token  int64
	end    workflow.ChildWorkflowFuture
	wanted bool // it was to be driven again while it was ending
}

// run is one run of the workflow of a task.
type run struct {
	loop
	task   string
	drives []*driving
	due    time.Time // when to look again; zero: when it is poked
	failed int       // looks in a row
}

// taskLoop is the workflow of a task: look, have driven what may be, and wait for news.
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

// reconcile looks at the task once, and starts the drives that it says.
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

// start starts a drive that is not under way.
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

// wait waits until the task is to be looked at: because it is poked, a drive has ended, or it is time.
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

// ended takes note that a drive has ended, and reports whether to look now. The host has poked when all went well.
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

// What has become of a drive.
const (
	driven   = "driven"   // and the task is poked
	again    = "again"    // somebody else is at it, or the task could not be poked
	declined = "declined" // by the host
)

// driveLoop is the workflow of a drive: one call of a host that takes it. It reports whether the task is to be looked
// at again in a while.
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
			RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
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

// queue is where a host that has one of the labels which a thread needs takes it; the others are asked for in turn.
func (l loop) queue(r dispatch.Ready, try int) string {
	if len(r.Needs) == 0 {
		return l.any()
	}
	return l.label(r.Needs[try%len(r.Needs)])
}
