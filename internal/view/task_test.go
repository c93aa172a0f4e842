package view

import (
	"slices"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view/advice"
)

func TestInstanceStates(t *testing.T) {
	head, other := dag.Sum([]byte("head")), dag.Sum([]byte("other"))
	for _, c := range []struct {
		name              string
		attempt           store.AttemptStatus
		thread            store.Status
		reason            store.ReasonKind
		moved, asks, idle bool
		want              store.Status
	}{
		{name: "at work", attempt: store.AttemptRunning, thread: store.Running, want: store.Running},
		{name: "its process is gone", attempt: store.AttemptRunning, thread: store.Running, idle: true, want: Interrupted},
		{name: "asks", attempt: store.AttemptRunning, thread: store.Running, asks: true, want: store.Blocked},
		{name: "done", attempt: store.AttemptDone, thread: store.Running, moved: true, want: store.Completed},
		{name: "asked for input", attempt: store.AttemptDone, thread: store.Blocked, reason: store.ReasonInput, moved: true,
			want: store.Blocked},
		{name: "done before a limit", attempt: store.AttemptDone, thread: store.Blocked, reason: store.ReasonLimit,
			moved: true, want: store.Completed},
		{name: "will try again", attempt: store.AttemptFailed, thread: store.Running, want: store.Pending},
		{name: "would have tried again", attempt: store.AttemptFailed, thread: store.Running, idle: true, want: Interrupted},
		{name: "out of attempts", attempt: store.AttemptFailed, thread: store.Blocked, reason: store.ReasonAttempts,
			want: store.Failed},
		{name: "stopped by a limit", attempt: store.AttemptFailed, thread: store.Blocked, reason: store.ReasonLimit,
			want: store.Blocked},
		{name: "path failed", attempt: store.AttemptFailed, thread: store.Failed, want: store.Failed},
		{name: "cut off", attempt: store.AttemptInterrupted, thread: store.Running, want: Interrupted},
		{name: "cut off, a person is asked", attempt: store.AttemptInterrupted, thread: store.Blocked,
			reason: store.ReasonGate, want: store.Blocked},
		{name: "nobody wanted it", attempt: store.AttemptCancelled, thread: store.Cancelled, want: store.Cancelled},
		{name: "failed, then nobody wanted it", attempt: store.AttemptFailed, thread: store.Cancelled, want: store.Cancelled},
		{name: "too late", attempt: store.AttemptSuperseded, thread: store.Running, want: store.Cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			row := store.Thread{ID: "T", Status: c.thread, Head: head}
			if c.reason != "" {
				row.Reason = &store.Reason{Kind: c.reason}
			}
			a := store.Attempt{ID: "T.1", Thread: "T", N: 1, Status: c.attempt, From: head}
			if c.moved {
				a.From = other
			}
			r := TaskRecord{Attempts: []store.Attempt{a}, Driven: !c.idle}
			if got := r.instance(row, a, c.asks); got != c.want {
				t.Errorf("state is %s, want %s", got, c.want)
			}
		})
	}
}

func TestStates(t *testing.T) {
	for _, c := range []struct {
		status store.Status
		asks   bool
		want   string
	}{
		{store.Pending, false, Created}, {store.Running, false, Working}, {store.Running, true, InputRequired},
		{store.Blocked, false, InputRequired},
		{store.Completed, true, Completed}, {store.Failed, false, Failed}, {store.Cancelled, false, Canceled},
	} {
		if got := State(store.Thread{Status: c.status}, c.asks); got != c.want {
			t.Errorf("%s, asks %t: state %s, want %s", c.status, c.asks, got, c.want)
		}
	}
}

func TestLabelsInACircle(t *testing.T) {
	rows := []store.Thread{{ID: "a", Flow: "f", Parent: &store.Parent{Thread: "b"}},
		{ID: "b", Flow: "g", Parent: &store.Parent{Thread: "a"}}}
	if got := labelsOf(rows)["a"]; got != "g/f" {
		t.Errorf("label is %q", got)
	}
}

func TestNext(t *testing.T) {
	blocked := func(kind store.ReasonKind) store.Thread {
		return store.Thread{ID: "T", Status: store.Blocked, Reason: &store.Reason{Kind: kind}}
	}
	for _, c := range []struct {
		name   string
		root   store.Thread
		driven bool
		below  store.ReasonKind
		want   advice.Option
	}{
		{"runs", store.Thread{ID: "T", Status: store.Running}, true, "", advice.Option{}},
		{"is interrupted", store.Thread{ID: "T", Status: store.Running}, false, "",
			advice.Option{Verb: advice.Resume, ID: "T"}},
		{"is new", store.Thread{ID: "T", Status: store.Pending}, false, "", advice.Option{Verb: advice.Resume, ID: "T"}},
		{"is done", store.Thread{ID: "T", Status: store.Completed}, false, "", advice.Option{}},
		{"a gate is waited for", blocked(store.ReasonGate), true, "", advice.Option{}},
		{"a gate is open", blocked(store.ReasonGate), false, "", advice.Option{Verb: advice.Resume, ID: "T"}},
		{"a limit is reached", store.Thread{ID: "T", Status: store.Blocked, Reason: &store.Reason{Kind: store.ReasonLimit,
			Raise: "maxTokens=9"}}, false, "", advice.Option{Verb: advice.Resume, ID: "T", Needs: advice.NeedsLimit,
			Value: "maxTokens=9"}},
		{"a vendor's limit is reached", blocked(store.ReasonLimit), false, "", advice.Option{Verb: advice.Resume, ID: "T"}},
		{"a path asks", blocked(store.ReasonChild), false, store.ReasonInput,
			advice.Option{Verb: advice.Resume, ID: "P", Needs: advice.NeedsText}},
	} {
		r := TaskRecord{Root: c.root, Threads: []store.Thread{c.root}, Driven: c.driven}
		if c.below != "" {
			r.Threads = append(r.Threads, store.Thread{ID: "P", Status: store.Blocked, Reason: &store.Reason{Kind: c.below}})
		}
		var got advice.Option
		if next := r.next(); next != nil {
			got = *next
		}
		if got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestControllerState(t *testing.T) {
	for _, c := range []struct {
		name   string
		status store.Status
		states []string
		want   string
	}{
		{"before anything", store.Pending, nil, "init"},
		{"the newest", store.Running, []string{"init", "planning"}, "planning"},
		{"blocked", store.Blocked, []string{"monitoring", "blocked"}, "blocked"},
		{"goes on", store.Running, []string{"planning", "monitoring", "blocked", "blocked"}, "monitoring"},
		{"done", store.Completed, []string{"planning", "done"}, "done"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := TaskRecord{Planned: true, Root: store.Thread{ID: "T", Status: c.status}}
			for i, s := range c.states {
				r.phases = append(r.phases, phase{s, int64(i)})
			}
			if got := r.controller().State; got != c.want {
				t.Errorf("state is %s, want %s", got, c.want)
			}
		})
	}
	if (TaskRecord{}).controller() != nil {
		t.Error("a task that nobody plans has a controller")
	}
}

func TestAnswersOf(t *testing.T) {
	for kind, want := range map[store.GateKind][]advice.Option{
		store.GateInput:    {{Verb: advice.Answer, ID: "g-1", Needs: advice.NeedsText}},
		store.GateApproval: {{Verb: advice.Approve, ID: "g-1"}, {Verb: advice.Deny, ID: "g-1"}},
	} {
		if got := AnswersOf(store.Gate{ID: "g-1", Kind: kind}); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
	}
}

func TestAttemptStates(t *testing.T) {
	for _, c := range []struct {
		status     store.AttemptStatus
		lost, asks bool
		want       DisplayState
	}{
		{store.AttemptRunning, false, false, DisplayRunning}, {store.AttemptRunning, true, false, DisplayNeedsYou},
		{store.AttemptRunning, false, true, DisplayNeedsYou}, {store.AttemptInterrupted, false, true, DisplayNeedsYou},
		{store.AttemptInterrupted, false, false, DisplayFailed}, {store.AttemptDone, false, false, DisplayDone},
		{store.AttemptSuperseded, false, false, DisplayCancelled},
	} {
		if got := AttemptState(store.Attempt{Status: c.status}, c.lost, c.asks); got != c.want {
			t.Errorf("%s, lost %t, asks %t: state %s, want %s", c.status, c.lost, c.asks, got, c.want)
		}
	}
}
