package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A steered agent takes people's input while it works.
type steered struct{ agent.Agent }

func (steered) Steers() bool { return true }

// A talking agent does so in sessions.
type talking struct{ *sessioned }

func (talking) Steers() bool { return true }

// What a person says to a working agent is a step, once: before the step of the agent that heard it,
// which is not told again, otherwise before the next one, which is.
func TestWhatIsSaidToAnAgentAtWork(t *testing.T) {
	const said = "and the docs"
	good := agent.Result{Output: []byte(`{"$status":"done","n":1}`), Session: "s"}
	for name, tt := range map[string]struct {
		hears bool
		first agent.Result
		fails *agent.Failure
		roles []string
		told  int // prompts that contain it
	}{
		"it hears it": {true, good, nil, []string{"__input__", "work", "__end__"}, 0},
		"it hears it, and its answer cannot be used": {true, agent.Result{Output: []byte(`{"$status":"done","n":"x"}`),
			Session: "s"}, nil, []string{"__input__", "work", "__end__"}, 0},
		"it hears it, and breaks": {true, agent.Result{}, &agent.Failure{Kind: agent.Infra, Message: "broken"},
			[]string{"__input__", "work", "__end__"}, 1},
		"it has done all before it hears it": {false, good, nil, []string{"work", "__input__", "work", "__end__"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var prompts []string
			atWork, go1 := make(chan struct{}), make(chan struct{})
			h := newHouse(t, map[string]scripted{"work": func(ctx context.Context, req agent.Request,
				_ func(agent.Event) error) (agent.Result, error) {
				if prompts = append(prompts, req.Prompt); len(prompts) > 1 {
					return good, nil
				}
				close(atWork)
				if tt.hears {
					more := <-req.Additions
					if more.Text != said {
						t.Errorf("it hears %q", more.Text)
					}
					more.Delivered()
				}
				<-go1
				if tt.fails != nil {
					return agent.Result{}, tt.fails
				}
				return tt.first, nil
			}})
			h.wrap = func(a agent.Agent) agent.Agent { return steered{a} }
			c := h.controller()
			row := h.begin(c, one("read", schema))
			ended := make(chan store.Thread)
			go func() { ended <- h.drive(c, row.ID, Resume{}) }()
			<-atWork
			h.sayWhileDriven(row.ID, said)
			close(go1)
			row = <-ended
			wantStatus(t, row, store.Completed, "")
			if diff := cmp.Diff(tt.roles, h.roles(row)); diff != "" {
				t.Errorf("roles: -want +got\n%s", diff)
			}
			told := slices.DeleteFunc(slices.Clone(prompts), func(p string) bool { return !strings.Contains(p, said) })
			if len(told) != tt.told {
				t.Errorf("told in %d prompts, want %d:\n%s", len(told), tt.told, strings.Join(prompts, "\n---\n"))
			}
			h.wantAllTaken(row)
			h.sound(row)
		})
	}
}

// sayWhileDriven says something to a thread whose task is driven: it is recorded for the driver.
func (h *house) sayWhileDriven(id, text string) {
	h.t.Helper()
	var recorded *RecordedError
	if _, err := h.controller().Drive(h.t.Context(), id, Resume{Prompt: text}); !errors.As(err, &recorded) {
		h.t.Errorf("%q, said to whoever drives it: %v", text, err)
	}
}

// Options sent along with input to a driven task apply from then on.
func TestOptionsForADrivenTask(t *testing.T) {
	atWork, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h := newHouse(t, map[string]scripted{"work": func(context.Context, agent.Request, func(agent.Event) error) (
		agent.Result, error) {
		once.Do(func() { close(atWork); <-release })
		return agent.Result{Output: []byte(`{"$status":"done"}`)}, nil
	}})
	c := h.controller()
	row := h.begin(c, one("read", ""))
	ended := make(chan store.Thread)
	go func() { ended <- h.drive(c, row.ID, Resume{}) }()
	<-atWork
	more := Resume{Prompt: "be quick", Options: record.Options{Limits: flow.Limits{MaxTokens: 12345}}}
	var recorded *RecordedError
	if _, err := h.controller().Drive(t.Context(), row.ID, more); !errors.As(err, &recorded) {
		t.Errorf("said to whoever drives it: %v", err)
	}
	close(release)
	row = <-ended
	wantStatus(t, row, store.Completed, "")
	h.wantAllTaken(row)
	if opts, err := record.OptionsOf(row); err != nil || opts.Limits.MaxTokens != 12345 {
		t.Errorf("its limits are %+v, %v", opts.Limits, err)
	}
}

// wantAllTaken fails the test if a request for a task is still open.
func (h *house) wantAllTaken(row store.Thread) {
	h.t.Helper()
	open, err := h.store.Requests(h.t.Context(), store.RequestFilter{Task: row.Task, Open: true})
	if err != nil || len(open) > 0 {
		h.t.Errorf("still open: %+v, %v", open, err)
	}
}

// Input for a path reaches the path; input for no thread in particular waits for the task's own next prompt.
func TestWhatIsSaidToAPath(t *testing.T) {
	prompts := map[string][]string{}
	atWork, go1 := make(chan struct{}), make(chan struct{})
	agents := surveyAgents()
	for name, a := range agents {
		agents[name] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			if req.Role == "api" {
				close(atWork)
				more := <-req.Additions
				prompts[req.Role] = append(prompts[req.Role], more.Text)
				more.Delivered()
				<-go1
			} else if req.Role == "report" {
				prompts[req.Role] = append(prompts[req.Role], req.Prompt)
			}
			return a(ctx, req, emit)
		}
	}
	h := newHouse(t, agents)
	h.wrap = func(a agent.Agent) agent.Agent { return steered{a} }
	c := h.controller()
	row := h.begin(c, survey)
	ended := make(chan store.Thread)
	go func() { ended <- h.drive(c, row.ID, Resume{}) }()
	<-atWork
	path := h.below(row)["a"]
	h.sayWhileDriven(path.ID, "for the path")
	h.sayWhileDriven(row.ID, "for all")
	close(go1)
	row = <-ended
	wantStatus(t, row, store.Completed, "")
	if got := prompts["api"]; len(got) != 1 || got[0] != "for the path" {
		t.Errorf("the path heard %q", got)
	}
	if got := prompts["report"]; len(got) == 0 || !strings.Contains(got[0], "for all") {
		t.Errorf("the next prompt of the task: %q", got)
	}
	if roles := h.roles(h.below(row)["a"]); !slices.Contains(roles, thread.RoleInput) {
		t.Errorf("the path's steps: %q", roles)
	}
	h.sound(row)
}

// Input heard by an agent whose answers were all unusable is told once: its session knows it when the
// task is resumed, otherwise the next prompt contains it.
func TestWhatWasHeardInVain(t *testing.T) {
	const said = "and the docs"
	for _, lost := range []bool{false, true} {
		var prompts []string
		atWork, go1 := make(chan struct{}), make(chan struct{})
		h := newHouse(t, map[string]scripted{"work": func(ctx context.Context, req agent.Request,
			_ func(agent.Event) error) (agent.Result, error) {
			switch prompts = append(prompts, req.Prompt); len(prompts) {
			case 1:
				close(atWork)
				more := <-req.Additions
				more.Delivered()
				<-go1
				fallthrough
			case 2, 3:
				return agent.Result{Output: []byte(`{"$status":"done","n":"x"}`), Session: "s"}, nil
			}
			return agent.Result{Output: []byte(`{"$status":"done","n":1}`), Session: "s"}, nil
		}})
		gone := map[string]bool{}
		h.wrap = func(a agent.Agent) agent.Agent { return talking{&sessioned{Agent: a, lost: gone}} }
		c := h.controller()
		row := h.begin(c, one("read", schema))
		ended := make(chan store.Thread)
		go func() { ended <- h.drive(c, row.ID, Resume{}) }()
		<-atWork
		h.sayWhileDriven(row.ID, said)
		close(go1)
		wantStatus(t, <-ended, store.Blocked, store.ReasonAttempts)
		if len(prompts) != 3 {
			t.Fatalf("%d prompts before it was blocked, want 3", len(prompts))
		}
		gone["s"] = lost
		row = h.drive(h.controller(), row.ID, Resume{})
		wantStatus(t, row, store.Completed, "")
		if diff := cmp.Diff([]string{"__input__", "work", "__end__"}, h.roles(row)); diff != "" {
			t.Errorf("lost %t: roles: -want +got\n%s", lost, diff)
		}
		if told := strings.Contains(prompts[3], said); told != lost {
			t.Errorf("the session is lost: %t; it is told again: %t", lost, told)
		}
		h.wantAllTaken(row)
		h.sound(row)
	}
}
