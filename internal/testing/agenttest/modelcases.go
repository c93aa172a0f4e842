package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/plait-run/plait/internal/agent"
)

// oddText is an answer that is hard to transmit.
var oddText = "\u202e\u0007\u001b[31mred\u001b[0m \u2028 \\ud800 \"quoted\" <b>&amp; \U0001f9f6 " +
	strings.Repeat("long ", 20_000) + "end"

// scenario is the scenario of the model of all cases. The prompt names the case.
var scenario = `
turns:
- when: {contains: [case on]} # first: an agent may send a prompt that was cut off along with the next one
  steps:
  - items: [{answer: all done}]
- when: {contains: [case items]}
  steps:
  - items:
    - say: I look around.
    - run: echo one > f.txt; echo seen; exit 3
    usage: {input: 100, cached: 10, output: 20, reasoning: 5}
  - items:
    - answer: "It gave: {{output 1}}"
    usage: {input: 1000, cached: 100, output: 200, reasoning: 50}
- when: {contains: [case ask]}
  steps:
  - items: [{run: {cmd: echo one > f.txt; echo seen, escalate: true, justification: May I?}}]
  - items: [{answer: "It gave: {{output 1}}"}]
- when: {contains: [case odd]}
  steps:
  - items: [{run: "printf 'odd \\377\\376\\303(\\033[31m end\\n'"}]
  - items: [{answer: ` + string(jsonOf(oddText)) + `}]
- when: {contains: [case wait]}
  steps:
  - items:
    - run: {cmd: "touch begun; until test -e go; do sleep 0.05; done; echo went", yield_ms: 30000}
  - items: [{answer: "It gave: {{output 1}}"}]
- when: {contains: [case slow]}
  steps:
  - items: [{answer: This is said very slowly and so there is time to say something meanwhile}]
    slow: 100ms
- when: {contains: [case shape]}
  steps:
  - items: [{answer: {auto: true, text: "the text", with: {$status: done, count: 7}}}]
- when: {contains: [case silent]}
  steps: [{silent: true}]
- when: {contains: [case cut]}
  steps: [{cut: true, items: [{answer: this is never said to its end because the line goes dead}]}]
- when: {contains: [case half]}
  steps: [{cut: {times: 1}, items: [{answer: this is said to its end when the agent asks for it again}]}]
- when: {contains: [case 400]}
  steps: [{fail: {status: 400}}]
- when: {contains: [case 401]}
  steps: [{fail: {status: 401}}]
- when: {contains: [case 402]}
  steps: [{fail: {status: 402}}]
- when: {contains: [case 429]}
  steps: [{fail: {status: 429}}]
- when: {contains: [case 500]}
  steps: [{fail: {status: 500}}]
- steps:
  - items: [{answer: all done}]
`

func jsonOf(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen
	}
	return data
}

func (l *lab) items(t *testing.T) {
	y := l.try(t, "case items")
	res := l.works(t, y, nil)
	if !y.exists("f.txt") || !strings.Contains(string(res.Output), "seen") {
		t.Errorf("the command did not run: %q", res.Output)
	}
	said, ran := y.of(agent.EventMessage, "completed"), y.of(agent.EventCommand, "")
	if len(said) < 2 || said[0].Text != "I look around." {
		t.Errorf("got messages %+v", said)
	}
	if len(ran) < 2 || ran[0].Phase != "started" || !strings.Contains(ran[0].Text, "echo one > f.txt") {
		t.Fatalf("got commands %+v", ran)
	}
	end := ran[len(ran)-1]
	if end.ID != ran[0].ID || end.ID == "" || end.Exit == nil || *end.Exit != 3 || !strings.Contains(end.Output, "seen") {
		t.Errorf("the command ended with %+v", end)
	}
}

func (l *lab) usage(t *testing.T) {
	y := l.try(t, "case items")
	res := l.works(t, y, nil)
	got := res.Usage
	got.ReasoningTokens, got.CostMicroUSD = 0, 0 // not every API has them
	if want := (agent.Usage{InputTokens: 1100, CachedInputTokens: 110, OutputTokens: 220}); got != want {
		t.Errorf("got usage %+v, want %+v", got, want)
	}
	told := y.of(agent.EventUsage, "")
	if len(told) == 0 || *told[len(told)-1].Usage != res.Usage {
		t.Errorf("got %d usage events that do not end with %+v", len(told), res.Usage)
	}
}

func (l *lab) odd(t *testing.T) {
	y := l.try(t, "case odd")
	y.odd = true
	if res := l.works(t, y, nil); string(res.Output) != oddText {
		t.Errorf("got output %.200q of %d bytes, want %d", res.Output, len(res.Output), len(oddText))
	}
	for _, e := range y.events {
		if !utf8.ValidString(e.Output) || !utf8.ValidString(e.Text) {
			t.Errorf("an event is no UTF-8: %+v", e)
		}
	}
	ran := y.of(agent.EventCommand, "")
	if len(ran) == 0 || !strings.Contains(ran[len(ran)-1].Output, "odd ") ||
		!strings.Contains(ran[len(ran)-1].Output, "end") {
		t.Errorf("got commands %+v", ran)
	}
}

// asked lets the agent ask a person about a command.
func (l *lab) asked(t *testing.T, allow bool) {
	y := l.try(t, "case ask")
	y.odd = true
	var asked []agent.Question
	y.req.Ask = func(_ context.Context, q agent.Question) (agent.Answer, error) {
		asked = append(asked, q)
		return agent.Answer{Approved: allow}, nil
	}
	l.asking(t).works(t, y, nil)
	if len(asked) != 1 || asked[0].Inside || asked[0].Action.Type != "command" ||
		!strings.Contains(asked[0].Action.Command, "echo one > f.txt; echo seen") || asked[0].Action.Cwd != y.req.Dir {
		t.Errorf("got questions %+v", asked)
	}
	if _, lacks := l.cfg.Lacks["Edited"]; len(asked) > 0 && asked[0].Editable == lacks {
		t.Errorf("the question can be answered with another input: %t", asked[0].Editable)
	}
	if y.exists("f.txt") != allow {
		t.Errorf("the command ran: %t, want %t", !allow, allow)
	}
	if ends := y.of(agent.EventCommand, "declined"); !allow && (len(ends) != 1 || ends[0].Exit != nil) {
		t.Errorf("got commands %+v", y.of(agent.EventCommand, ""))
	}
}

func (l *lab) deniedReason(t *testing.T) {
	y := l.try(t, "case ask")
	y.odd = true
	y.req.Ask = func(context.Context, agent.Question) (agent.Answer, error) {
		return agent.Answer{Text: "not on a Sunday"}, nil
	}
	if res := l.asking(t).works(t, y, nil); !strings.Contains(string(res.Output), "not on a Sunday") {
		t.Errorf("the model was told %q", res.Output)
	}
}

// edited approves another command: that one must run, be reported, and be what the model gets to see.
func (l *lab) edited(t *testing.T) {
	const other = "echo two > g.txt; echo other"
	y := l.try(t, "case ask")
	y.odd = true
	var asked string
	y.req.Ask = func(_ context.Context, q agent.Question) (agent.Answer, error) {
		asked = q.Action.Command
		act := q.Action
		act.Command = other
		if act.Params != nil {
			var in map[string]any
			if err := json.Unmarshal(act.Params, &in); err != nil {
				return agent.Answer{}, err
			}
			in["command"] = other
			act.Params = jsonOf(in)
		}
		return agent.Answer{Approved: true, Edited: &act}, nil
	}
	res := l.asking(t).works(t, y, nil)
	if y.exists("f.txt") || !y.exists("g.txt") || !strings.Contains(string(res.Output), "other") {
		t.Errorf("what was asked for ran: %t, what was approved: %t; it gave %q", y.exists("f.txt"), y.exists("g.txt"),
			res.Output)
	}
	ended := y.of(agent.EventCommand, "completed")
	if len(ended) != 1 || ended[0].Text != other || ended[0].Asked != asked {
		t.Errorf("the events say %+v", ended)
	}
}

func (l *lab) askFails(t *testing.T) {
	y := l.try(t, "case ask")
	broken := errors.New("the gates are broken")
	y.req.Ask = func(context.Context, agent.Question) (agent.Answer, error) { return agent.Answer{}, broken }
	if l.asking(t).runs(t.Context(), t, y, nil); !errors.Is(y.err, broken) || y.exists("f.txt") {
		t.Errorf("Run returned %v, want the error of Ask; the command ran: %t", y.err, y.exists("f.txt"))
	}
}

func (l *lab) askCancelled(t *testing.T) {
	y := l.try(t, "case ask")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	y.req.Ask = func(ctx context.Context, _ agent.Question) (agent.Answer, error) {
		cancel()
		<-ctx.Done()
		return agent.Answer{Approved: true}, nil // approved nevertheless
	}
	l.asking(t).runs(ctx, t, y, nil)
	failure(t, y, agent.Cancelled)
	if y.exists("f.txt") {
		t.Error("the command ran although the attempt was cancelled")
	}
}

// askWaits checks that the time a person takes counts neither as work nor as silence.
func (l *lab) askWaits(t *testing.T) {
	for idle := l.cfg.Quiet; ; idle *= 2 { // on a busy machine an agent may take long to ask, and to go on
		y := l.try(t, "case ask")
		y.req.Idle, y.req.Timeout = idle, idle
		y.req.Ask = func(context.Context, agent.Question) (agent.Answer, error) {
			time.Sleep(idle + time.Second)
			return agent.Answer{Approved: true}, nil
		}
		l.asking(t).runs(t.Context(), t, y, nil)
		if y.err == nil {
			return
		}
		if idle > time.Minute {
			t.Fatal(y.err)
		}
	}
}

// toolWaits checks that a tool that says nothing while it runs does not count as silence.
func (l *lab) toolWaits(t *testing.T) {
	for idle := l.cfg.Quiet; ; idle *= 2 { // on a busy machine it may take long until the agent's command runs
		y := l.try(t, "case wait for long")
		y.req.Idle = idle
		y.begun(t, func() {
			time.Sleep(idle + time.Second)
			y.put("go")
		})
		l.runs(t.Context(), t, y, nil)
		if y.err == nil {
			return
		}
		if y.exists("begun") || idle > time.Minute {
			t.Fatal(y.err)
		}
	}
}

func (l *lab) steers(t *testing.T) {
	t.Helper()
	if a, ok := l.agent.(agent.Steerer); !ok || !a.Steers() {
		t.Fatal("it is no Steerer; if it cannot be one, Lacks has to say so")
	}
}

// told reports whether an event says that an addition was passed on.
func told(e agent.Event) bool {
	return e.Kind == agent.EventProgress && strings.HasPrefix(e.Text, "told: ")
}

func (l *lab) steered(t *testing.T) {
	l.steers(t)
	y := l.try(t, "case wait and steer")
	more := make(chan agent.Addition, 1)
	y.req.Additions = more
	heard := make(chan struct{}, 9)
	y.begun(t, func() { more <- agent.Addition{Text: "Mind the gap.", Delivered: func() { heard <- struct{}{} }} })
	l.works(t, y, func(e agent.Event) error {
		if told(e) {
			y.put("go")
		}
		return nil
	})
	holds(t, l.last(t, "wait and steer"), map[string]bool{"Mind the gap.": true, "went": true})
	if len(heard) != 1 {
		t.Errorf("it was heard %d times", len(heard))
	}
}

// steeredLate adds something while the model answers. Whether it was received or not, the report must be true.
func (l *lab) steeredLate(t *testing.T) {
	l.steers(t)
	y := l.try(t, "case slow and steer late")
	more := make(chan agent.Addition, 1)
	y.req.Additions = more
	heard := make(chan struct{}, 9)
	l.when(t, "slow and steer late", func() {
		more <- agent.Addition{Text: "By the way.", Delivered: func() { heard <- struct{}{} }}
	})
	l.works(t, y, nil)
	if holds(t, l.last(t, "slow and steer late"), map[string]bool{"By the way.": len(heard) == 1}); len(heard) > 1 {
		t.Errorf("it was heard %d times", len(heard))
	}
}

// steeredInVain adds something that the model never gets to see.
func (l *lab) steeredInVain(t *testing.T) {
	l.steers(t)
	y := l.try(t, "case wait in vain")
	more := make(chan agent.Addition, 1)
	y.req.Additions = more
	y.begun(t, func() {
		more <- agent.Addition{Text: "Too late.", Delivered: func() { y.fault("what the model never saw was called heard") }}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.runs(ctx, t, y, func(e agent.Event) error {
		if told(e) {
			cancel()
		}
		return nil
	})
	failure(t, y, agent.Cancelled)
}
