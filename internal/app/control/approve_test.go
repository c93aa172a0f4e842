package control

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
)

// An asking agent asks whether it may run a command, and answers with what it was told.
// If the attempt ends while it asks, the attempt was cut off.
type asking struct {
	inside bool
	opened chan struct{} // receives once for each run that asks, before it asks

	mu      sync.Mutex
	prompts []string
}

func (a *asking) run(ctx context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
	a.mu.Lock()
	a.prompts = append(a.prompts, req.Prompt)
	a.mu.Unlock()
	if req.Ask == nil {
		return agent.Result{Output: []byte(`{"$status":"done","may":"nobody to ask"}`), Sandbox: "none"}, nil
	}
	if a.opened != nil {
		a.opened <- struct{}{}
	}
	ans, err := req.Ask(ctx, agent.Question{
		Text: "May I?", Inside: a.inside, Action: agent.Action{Type: "command", Command: "make install", Cwd: "/src"},
	})
	if ctx.Err() != nil {
		return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
	}
	if err != nil {
		return agent.Result{}, err
	}
	may := "no"
	if ans.Approved {
		may = "yes"
	}
	return agent.Result{Output: []byte(`{"$status":"done","may":"` + may + `"}`), Sandbox: "none"}, nil
}

// gates returns the gates of a thread once there are n of them.
func (h *house) gates(id string, n int) []store.Gate {
	h.t.Helper()
	book := h.controller().Gates()
	for pos := int64(0); ; {
		open, err := book.Gates(h.t.Context(), store.GateFilter{Thread: id})
		if err != nil {
			h.t.Fatal(err)
		}
		if len(open) >= n {
			return open
		}
		if pos, err = h.store.Wait(h.t.Context(), pos); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *house) answer(id string, approve bool) {
	h.t.Helper()
	_, err := h.controller().Gates().Answer(context.Background(), id, gate.Answer{Approve: approve, Reject: !approve,
		By: "someone", Via: store.ViaCLI})
	if err != nil {
		h.t.Error(err)
	}
}

// may returns what the agent was told, from its step.
func (h *house) may(row store.Thread) string {
	h.t.Helper()
	steps, err := h.controller().Reader().Steps(h.t.Context(), row.Head)
	if err != nil || len(steps) == 0 {
		h.t.Fatalf("steps: %d, %v", len(steps), err)
	}
	_, rest, _ := strings.Cut(string(steps[0].State.Meta), `"may":"`)
	said, _, _ := strings.Cut(rest, `"`)
	return said
}

func (h *house) events(id, typ string) int {
	h.t.Helper()
	events, err := h.store.Events(h.t.Context(), 0, store.EventFilter{Task: id})
	if err != nil {
		h.t.Fatal(err)
	}
	n := 0
	for _, ev := range events {
		if ev.Type == typ {
			n++
		}
	}
	return n
}

func (h *house) beginWith(c *Controller, yaml string, o Options) store.Thread {
	h.t.Helper()
	row, err := c.Begin(h.t.Context(), Spec{Bundle: mustPack(h.t, yaml).Bundle, Prompt: "do it", Workspace: h.dir,
		ID: rootID, Options: o})
	if err != nil {
		h.t.Fatal(err)
	}
	return row
}

func TestApprovals(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options Options
		inside  bool
		answer  string // approve, deny or nothing
		want    string
		state   store.GateState // of the gate, "" if none opens
		via     store.Via
	}{
		{"a person approves", Options{}, false, "approve", "yes", store.GateApproved, store.ViaCLI},
		{"a person denies", Options{Approve: record.ApproveAsk}, true, "deny", "no", store.GateRejected, store.ViaCLI},
		{"nobody is asked", Options{Approve: record.ApproveNever}, true, "", "nobody to ask", "", ""},
		{"inside the sandbox", Options{Approve: record.ApproveSandboxed}, true, "", "yes", store.GateApproved,
			store.ViaPolicy},
		{"outside the sandbox", Options{Approve: record.ApproveSandboxed}, false, "deny", "no", store.GateRejected,
			store.ViaCLI},
		{"nobody answers", Options{ApproveExpires: flow.Duration(time.Millisecond)}, false, "", "no", store.GateExpired,
			store.ViaTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &asking{inside: tt.inside}
			h := newHouse(t, map[string]scripted{"work": a.run})
			h.clock = time.Now
			c := h.controller()
			row := h.beginWith(c, one("read", ""), tt.options)
			var wg sync.WaitGroup
			if tt.answer != "" {
				wg.Go(func() { h.answer(h.gates(row.ID, 1)[0].ID, tt.answer == "approve") })
			}
			row = h.drive(c, row.ID, Resume{Wait: tt.answer != ""})
			wg.Wait()
			wantStatus(t, row, store.Completed, "")
			if got := h.may(row); got != tt.want {
				t.Errorf("the agent was told %q, want %q", got, tt.want)
			}
			gates := h.gates(row.ID, 0)
			if tt.state == "" {
				if len(gates) != 0 {
					t.Errorf("gates: %+v", gates)
				}
				return
			}
			if len(gates) != 1 || gates[0].State != tt.state || gates[0].Via != tt.via {
				t.Fatalf("gates: %+v, want one that is %s via %s", gates, tt.state, tt.via)
			}
			if gates[0].UsedAt == 0 {
				t.Error("the record does not say that the agent heard the answer")
			}
		})
	}
}

// A question outlives the process that asked it, and its answer leads to the same end
// as without the interruption.
func TestAnApprovalSurvives(t *testing.T) {
	for _, approve := range []bool{true, false} {
		t.Run(map[bool]string{true: "approved", false: "denied"}[approve], func(t *testing.T) {
			// The outcome of an undisturbed run.
			h := newHouse(t, map[string]scripted{"work": (&asking{}).run})
			c := h.controller()
			row := h.beginWith(c, one("write", ""), Options{})
			var wg sync.WaitGroup
			wg.Go(func() { h.answer(h.gates(row.ID, 1)[0].ID, approve) })
			want := h.digest(h.drive(c, row.ID, Resume{Wait: true}))
			wg.Wait()

			for _, when := range []string{"before the resume", "after a resume", "while a resume waits"} {
				a := &asking{opened: make(chan struct{}, 9)}
				h := newHouse(t, map[string]scripted{"work": a.run})
				c := h.controller()
				row := h.beginWith(c, one("write", ""), Options{})
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					h.gates(row.ID, 1)
					cancel()
				}()
				if _, err := c.Drive(ctx, row.ID, Resume{Wait: true}); !errors.Is(err, engine.ErrInterrupted) {
					t.Fatalf("%s: drive: %v", when, err)
				}
				g := h.gates(row.ID, 1)[0]
				if g.State != store.GateOpen {
					t.Fatalf("%s: the gate is %s", when, g.State)
				}
				var wg sync.WaitGroup
				resume := Resume{}
				switch when {
				case "before the resume":
					h.answer(g.ID, approve)
				case "after a resume":
					wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Blocked, "gate")
					h.answer(g.ID, approve)
				default:
					resume.Wait = true
					wg.Go(func() {
						// It answers only once the resume waits.
						for pos := int64(0); ; {
							now, err := h.store.Thread(t.Context(), row.ID)
							if err != nil || now.Status == store.Blocked {
								break
							}
							if pos, err = h.store.Wait(t.Context(), pos); err != nil {
								break
							}
						}
						h.answer(g.ID, approve)
					})
				}
				end := h.drive(h.controller(), row.ID, resume)
				wg.Wait()
				wantStatus(t, end, store.Completed, "")
				if got := h.digest(end); got != want {
					t.Errorf("%s: the outcome is %s, want that of an undisturbed run, %s", when, got.Short(),
						want.Short())
				}
				if n := len(h.gates(row.ID, 0)); n != 1 {
					t.Errorf("%s: %d gates, want 1: what was answered is not asked again", when, n)
				}
				said := map[bool]string{true: "was approved", false: "was denied"}[approve]
				if last := a.prompts[len(a.prompts)-1]; !strings.Contains(last, "`make install`") ||
					!strings.Contains(last, said) {
					t.Errorf("%s: the next attempt was not told: %s", when, last)
				}
			}
		})
	}
}

// A question of a task that is over needs no answer.
func TestTheEndWithdraws(t *testing.T) {
	h := newHouse(t, map[string]scripted{"work": (&asking{}).run})
	c := h.controller()
	row := h.beginWith(c, one("write", ""), Options{})
	told := make(chan error)
	go func(h *house, id string) {
		h.gates(id, 1)
		_, err := h.controller().Cancel(context.Background(), id)
		told <- err
	}(h, row.ID)
	wantStatus(t, h.drive(c, row.ID, Resume{Wait: true}), store.Cancelled, "")
	if err := <-told; err != nil {
		t.Error(err)
	}
	if g := h.gates(row.ID, 1)[0]; g.State != store.GateWithdrawn {
		t.Errorf("the gate is %s, want withdrawn", g.State)
	}

	// One that waits without an agent at work.
	h = newHouse(t, map[string]scripted{"work": (&asking{}).run})
	c = h.controller()
	row = h.beginWith(c, one("write", ""), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { h.gates(row.ID, 1); cancel() }()
	if _, err := c.Drive(ctx, row.ID, Resume{Wait: true}); !errors.Is(err, engine.ErrInterrupted) {
		t.Fatal(err)
	}
	wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Blocked, "gate")
	end, err := h.controller().Cancel(t.Context(), row.ID)
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, end, store.Cancelled, "")
	if g := h.gates(row.ID, 1)[0]; g.State != store.GateWithdrawn {
		t.Errorf("the gate is %s, want withdrawn", g.State)
	}
	if n := h.events(row.ID, "gate.withdrawn"); n != 1 {
		t.Errorf("%d events gate.withdrawn", n)
	}
}

// An attempt that was cut off and may have acted is repeated once a person approves
// that at its gate.
func TestInterruptedAttemptsAreGates(t *testing.T) {
	for _, approve := range []bool{true, false} {
		started, first := make(chan struct{}), true
		h := newHouse(t, map[string]scripted{"work": func(ctx context.Context, _ agent.Request,
			_ func(agent.Event) error) (agent.Result, error) {
			if first {
				first = false
				close(started)
				<-ctx.Done()
				return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
			}
			return agent.Result{Output: []byte(status("done")), Sandbox: "none"}, nil
		}})
		c := h.controller()
		row := h.begin(c, one("write", ""))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-started; cancel() }()
		if _, err := c.Drive(ctx, row.ID, Resume{}); !errors.Is(err, engine.ErrInterrupted) {
			t.Fatal(err)
		}
		wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Blocked, "gate")
		g := h.gates(row.ID, 1)[0]
		if g.Source != store.SourceInterrupted || g.State != store.GateOpen {
			t.Fatalf("gate: %+v", g)
		}
		h.answer(g.ID, approve)
		if approve {
			wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Completed, "")
			continue
		}
		for range 2 { // a no stands, however often it is resumed
			wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Blocked, "attempts")
		}
		wantStatus(t, h.drive(h.controller(), row.ID, Resume{Again: true}), store.Completed, "")
	}
}

// A sessioned agent has sessions like a vendor's: by name, some of them lost.
type sessioned struct {
	agent.Agent
	lost map[string]bool
}

func (s *sessioned) Continues(req agent.Request) bool { return !s.lost[req.Session] }

type forking struct{ *sessioned }

func (f forking) Forks(req agent.Request) bool {
	return !f.lost[req.From.Session] && req.From.Turn != ""
}

// worked is what an agent saw of one attempt.
type worked struct {
	Session, From, Turn string
	Whole               bool // the prompt told the task
}

func TestSessions(t *testing.T) {
	var saw []worked
	n := 0
	work := func(_ context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
		w := worked{Session: req.Session, Whole: strings.Contains(req.Prompt, "# Your role")}
		session := req.Session
		if req.From != nil {
			w.From, w.Turn = req.From.Session, req.From.Turn
		}
		if session == "" {
			n++
			session = "s" + string(rune('0'+n))
		}
		saw = append(saw, w)
		if req.Opened != nil {
			req.Opened(session)
		}
		out := status("bad")
		if req.Role == "work" {
			out = status("done")
		} else if req.Role == "plan" {
			out = status("ready")
		} else if req.Visit > 0 {
			out = status("good")
		}
		return agent.Result{Output: []byte(out), Sandbox: "none", Session: session, Turn: "turn-" + session}, nil
	}
	h := newHouse(t, map[string]scripted{"plan": work, "work": work, "review": work})
	power := &sessioned{lost: map[string]bool{}}
	h.wrap = func(a agent.Agent) agent.Agent { return forking{&sessioned{Agent: a, lost: power.lost}} }
	row := h.run(loop)
	wantStatus(t, row, store.Completed, "")
	// plan, work, review, then work and review again, in their own sessions.
	want := []worked{{Whole: true}, {Whole: true}, {Whole: true}, {Session: "s2"}, {Session: "s3"}}
	if diff := cmp.Diff(want, saw); diff != "" {
		t.Errorf("sessions: -want +got\n%s", diff)
	}

	// A fork after the first review continues in branches of the sessions.
	saw = nil
	c := h.controller()
	fork, err := c.Fork(t.Context(), Fork{Thread: row.ID, At: "3", ID: "01JD0000000000000000000001"})
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, h.drive(c, fork.ID, Resume{}), store.Completed, "")
	want = []worked{{From: "s2", Turn: "turn-s2"}, {From: "s3", Turn: "turn-s3"}}
	if diff := cmp.Diff(want, saw); diff != "" {
		t.Errorf("sessions of the fork: -want +got\n%s", diff)
	}

	// If the vendor has lost one, the prompt carries everything, and the record says
	// so.
	saw, power.lost["s2"] = nil, true
	fork, err = c.Fork(t.Context(), Fork{Thread: row.ID, At: "3", ID: "01JD0000000000000000000002"})
	if err != nil {
		t.Fatal(err)
	}
	fork = h.drive(c, fork.ID, Resume{})
	if diff := cmp.Diff([]worked{{Whole: true}, {From: "s3", Turn: "turn-s3"}}, saw); diff != "" {
		t.Errorf("sessions of the lossy fork: -want +got\n%s", diff)
	}
	var lossy []bool
	steps, err := c.Reader().Steps(t.Context(), fork.Head)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		d, err := c.Reader().Detail(t.Context(), s.State.Detail)
		if err != nil {
			t.Fatal(err)
		}
		lossy = append(lossy, d != nil && len(d.Context) > 0 && d.Context[0].Form == "lossy")
	}
	if diff := cmp.Diff([]bool{false, false, false, true, false, false}, lossy); diff != "" {
		t.Errorf("lossy: -want +got\n%s", diff)
	}
}
