package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/plait-run/plait/internal/engine/dispatch"
)

var patient = loop{
	prefix: "plait", prefer: 30 * time.Second, again: time.Second, heartbeat: 30 * time.Second, look: time.Minute,
}

// stage runs a workflow on its own clock, which jumps to the next event.
type stage struct {
	*testsuite.TestWorkflowEnvironment
	began  time.Time
	looks  []time.Duration // when Reconcile was called
	starts []string        // ids of workflows of drives
	drives []string        // queues by which Drive was called, and when
}

// at returns how long the workflow has run.
func (s *stage) at() time.Duration { return s.Now().Sub(s.began).Truncate(100 * time.Millisecond) }

func open(t *testing.T) *stage {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	s := &stage{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment()}
	s.RegisterWorkflowWithOptions(patient.taskLoop, workflow.RegisterOptions{Name: taskType})
	s.RegisterActivityWithOptions(func(context.Context, string) (agenda, error) { panic("not replaced") },
		activity.RegisterOptions{Name: reconcileActivity})
	s.RegisterActivityWithOptions(func(context.Context, drive) (string, error) { panic("not replaced") },
		activity.RegisterOptions{Name: driveActivity})
	s.SetTestTimeout(time.Minute)
	s.began = s.Now()
	t.Cleanup(func() {
		if !s.IsWorkflowCompleted() {
			t.Error("the workflow has not ended")
		}
	})
	return s
}

// reconcile has the calls of Reconcile answered with answers in turn, then with the last of them.
func (s *stage) reconcile(answers ...any) {
	s.OnActivity(reconcileActivity, mock.Anything, "t1").Return(func(context.Context, string) (agenda, error) {
		n := len(s.looks)
		s.looks = append(s.looks, s.at())
		switch a := answers[min(n, len(answers)-1)].(type) {
		case error:
			return agenda{}, a
		default:
			return a.(agenda), nil
		}
	})
}

// drive has f run as the workflow of drives.
func (s *stage) drive(f func(ctx workflow.Context, d drive) (bool, error)) {
	s.RegisterWorkflowWithOptions(func(ctx workflow.Context, d drive) (bool, error) {
		s.starts = append(s.starts, workflow.GetInfo(ctx).WorkflowExecution.ID)
		return f(ctx, d)
	}, workflow.RegisterOptions{Name: driveType})
}

func ready(thread string, token int64) dispatch.Ready {
	return dispatch.Ready{Thread: thread, Token: token}
}

func TestTask(t *testing.T) {
	lasts := func(d time.Duration, again bool, err error) func(workflow.Context, drive) (bool, error) {
		return func(ctx workflow.Context, _ drive) (bool, error) {
			workflow.Sleep(ctx, d)
			return again, err
		}
	}
	s := time.Second
	tests := map[string]struct {
		answers []any
		drive   func(workflow.Context, drive) (bool, error)
		pokes   []time.Duration
		looks   []time.Duration
		starts  []string
	}{
		"ended": {answers: []any{agenda{Ended: true}}, looks: []time.Duration{0}},
		"timer": {
			answers: []any{agenda{Look: true, After: 5 * s}, agenda{Look: true, After: time.Hour}, agenda{Ended: true}},
			looks:   []time.Duration{0, 5 * s, 5*s + time.Hour},
		},
		"poke": {
			answers: []any{agenda{Look: true, After: time.Hour}, agenda{}, agenda{Ended: true}},
			pokes:   []time.Duration{7 * s, 90 * s},
			looks:   []time.Duration{0, 7 * s, 90 * s},
		},
		"faults": {
			answers: []any{errors.New("no"), errors.New("no"), errors.New("no"), agenda{Ended: true}},
			looks:   []time.Duration{0, 1 * s, 3 * s, 7 * s},
		},
		"driven once, and the host has poked": {
			answers: []any{
				agenda{Drive: []dispatch.Ready{ready("a", 4), ready("b", 1)}}, agenda{Drive: []dispatch.Ready{ready("a", 5)}},
				agenda{Ended: true},
			},
			drive: lasts(10*s, false, nil), pokes: []time.Duration{10 * s, 20 * s},
			looks:  []time.Duration{0, 10 * s, 20 * s},
			starts: []string{"plait/drive/a/4", "plait/drive/b/1", "plait/drive/a/5"},
		},
		"wanted again while it ends": {
			answers: []any{
				agenda{Drive: []dispatch.Ready{ready("a", 1)}}, agenda{Drive: []dispatch.Ready{ready("a", 1)}},
				agenda{Ended: true},
			},
			drive: lasts(10*s, false, nil), pokes: []time.Duration{4 * s},
			looks: []time.Duration{0, 4 * s, 10 * s}, starts: []string{"plait/drive/a/1"},
		},
		"another is at it": {
			answers: []any{agenda{Drive: []dispatch.Ready{ready("a", 1)}}, agenda{Ended: true}},
			drive:   lasts(10*s, true, nil),
			looks:   []time.Duration{0, 11 * s}, starts: []string{"plait/drive/a/1"},
		},
		"a drive fails": {
			answers: []any{
				agenda{Drive: []dispatch.Ready{ready("a", 1)}},
				agenda{Drive: []dispatch.Ready{ready("a", 1)}, Look: true, After: 3 * s}, agenda{Ended: true},
			},
			drive: lasts(10*s, false, errDrive),
			looks: []time.Duration{0, 11 * s, 14 * s}, starts: []string{"plait/drive/a/1", "plait/drive/a/1"},
		},
		"a drive never returns": {
			answers: []any{
				agenda{Drive: []dispatch.Ready{ready("a", 1)}, Look: true, After: 30 * s},
				agenda{Drive: []dispatch.Ready{ready("a", 2)}, Look: true, After: 30 * s}, agenda{Ended: true},
			},
			drive: lasts(time.Hour, false, nil),
			looks: []time.Duration{0, 30 * s, 60 * s}, starts: []string{"plait/drive/a/1", "plait/drive/a/2"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			s.reconcile(test.answers...)
			if test.drive != nil {
				s.drive(test.drive)
			}
			for _, at := range test.pokes {
				s.RegisterDelayedCallback(func() { s.SignalWorkflow(pokeSignal, nil) }, at+50*time.Millisecond)
			}
			s.ExecuteWorkflow(taskType, "t1")
			if err := s.GetWorkflowError(); err != nil {
				t.Error(err)
			}
			if d := cmp.Diff(test.looks, s.looks); d != "" {
				t.Errorf("looks (-want +got):\n%s", d)
			}
			if d := cmp.Diff(test.starts, s.starts); d != "" {
				t.Errorf("drives (-want +got):\n%s", d)
			}
		})
	}
}

// TestStarted: a drive that an earlier run of the workflow has started is not started again, but is watched.
func TestStarted(t *testing.T) {
	s := open(t)
	s.reconcile(agenda{Drive: []dispatch.Ready{ready("a", 1)}}, agenda{Ended: true})
	s.drive(patient.driveLoop)
	s.OnWorkflow(driveType, mock.Anything, mock.Anything).Return(false, testsuite.ErrMockStartChildWorkflowFailed)
	s.ExecuteWorkflow(taskType, "t1")
	if err := s.GetWorkflowError(); err != nil {
		t.Error(err)
	}
	if want := []time.Duration{0, patient.look}; !slices.Equal(s.looks, want) {
		t.Errorf("looked at %v, want %v", s.looks, want)
	}
}

// TestContinues: what Temporal stores of a task does not grow without bound.
func TestContinues(t *testing.T) {
	s := open(t)
	s.reconcile(agenda{Look: true, After: 30 * time.Second})
	s.ExecuteWorkflow(taskType, "t1")
	if err := s.GetWorkflowError(); !workflow.IsContinueAsNewError(err) {
		t.Errorf("it ended with %v, want that it continues as another", err)
	}
	if len(s.looks) != mostLooks {
		t.Errorf("looked %d times, want %d", len(s.looks), mostLooks)
	}
}

// TestCancelled: a workflow that is canceled at Temporal ends, and does not keep asking.
func TestCancelled(t *testing.T) {
	s := open(t)
	s.reconcile(agenda{Look: true, After: time.Hour})
	s.RegisterDelayedCallback(s.CancelWorkflow, time.Minute)
	s.ExecuteWorkflow(taskType, "t1")
	var cancelled *temporal.CanceledError
	if err := s.GetWorkflowError(); !errors.As(err, &cancelled) || len(s.looks) != 1 {
		t.Errorf("it ended with %v after %d looks", err, len(s.looks))
	}
}

// takes has f answer the calls of Drive, given the number of the call and its queue.
func (s *stage) takes(f func(call int, queue string) (string, error)) {
	s.OnActivity(driveActivity, mock.Anything, mock.Anything).Return(func(ctx context.Context, _ drive) (string, error) {
		queue := activity.GetInfo(ctx).TaskQueue
		s.drives = append(s.drives, fmt.Sprintf("%s %s", queue, s.at()))
		return f(len(s.drives), queue)
	})
}

func TestDrive(t *testing.T) {
	nobody := temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
	silent := temporal.NewTimeoutError(enums.TIMEOUT_TYPE_HEARTBEAT, nil)
	ends := func(became string, err error) func(int, string) (string, error) {
		return func(int, string) (string, error) { return became, err }
	}
	tests := map[string]struct {
		ready  dispatch.Ready
		takes  func(call int, queue string) (string, error)
		drives []string
		again  bool
		fails  bool
	}{
		"anywhere": {takes: ends(driven, nil), drives: []string{"plait/any 0s"}},
		"held":     {takes: ends(again, nil), drives: []string{"plait/any 0s"}, again: true},
		"fails":    {takes: ends("", errDrive), drives: []string{"plait/any 0s"}, fails: true},
		"dies":     {takes: ends("", silent), drives: []string{"plait/any 0s"}, fails: true},
		"nobody":   {takes: ends("", nobody), drives: []string{"plait/any 0s"}, again: true},
		"host":     {ready: dispatch.Ready{Host: "h"}, takes: ends(driven, nil), drives: []string{"plait/host/h 0s"}},
		"host that is full": {
			ready: dispatch.Ready{Host: "h"},
			takes: func(call int, _ string) (string, error) {
				if call < 3 {
					return declined, nil
				}
				return driven, nil
			},
			drives: []string{"plait/host/h 0s", "plait/host/h 1s", "plait/host/h 3s"},
		},
		"label": {
			ready: dispatch.Ready{Needs: []string{"gpu"}}, takes: ends(driven, nil), drives: []string{"plait/label/gpu 0s"},
		},
		"labels, of hosts that lack one": {
			ready: dispatch.Ready{Needs: []string{"gpu", "linux"}},
			takes: func(call int, _ string) (string, error) {
				if call < 4 {
					return declined, nil
				}
				return driven, nil
			},
			drives: []string{"plait/label/gpu 0s", "plait/label/linux 1s", "plait/label/gpu 3s", "plait/label/linux 7s"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			s.drive(patient.driveLoop)
			s.takes(test.takes)
			s.ExecuteWorkflow(driveType, drive{"t1", test.ready})
			if err := s.GetWorkflowError(); (err != nil) != test.fails {
				t.Errorf("it ended with %v", err)
			}
			var again bool
			if s.GetWorkflowResult(&again); again != test.again {
				t.Errorf("look again: %v, want %v", again, test.again)
			}
			if d := cmp.Diff(test.drives, s.drives); d != "" {
				t.Errorf("drives (-want +got):\n%s", d)
			}
		})
	}
}

// TestElsewhere: a host that does not come is waited for only as long as it is preferred.
func TestElsewhere(t *testing.T) {
	s := open(t)
	s.drive(patient.driveLoop)
	nobody := temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
	s.OnActivity(driveActivity, mock.Anything, mock.Anything).Return(func(ctx context.Context, _ drive) (string, error) {
		info := activity.GetInfo(ctx)
		s.drives = append(s.drives, info.TaskQueue)
		if info.TaskQueue != "plait/any" {
			return "", nobody
		}
		return driven, nil
	}).After(patient.prefer)
	s.ExecuteWorkflow(driveType, drive{"t1", dispatch.Ready{Host: "gone"}})
	if want := []string{"plait/host/gone", "plait/any"}; !slices.Equal(s.drives, want) {
		t.Errorf("asked %v, want %v", s.drives, want)
	}
}

// TestReplay: workflows begun by earlier code continue with this one. What fails here needs new types.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	e, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, file := range files {
		replayer := worker.NewWorkflowReplayer()
		e.Register(replayer)
		quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
		if err := replayer.ReplayWorkflowHistoryFromJSONFile(quiet, file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
