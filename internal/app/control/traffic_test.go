package control

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/verify"
)

const askFlow = `version: 1
name: asking
description: d
roles:
  ask: {description: asks its model}
graph:
  $START: {new: {role: ask, prompt: go}}
  ask: {done: {role: $END, prompt: over}}
`

// talks is an agent that calls its model turns times, with the whole conversation, and says done whatever it hears.
func talks(turns int, each agent.Usage) scripted {
	return func(ctx context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
		for i := range turns {
			c := &agent.Call{Method: "POST", Path: "/messages", Type: "application/json", Body: turnBody(i)}
			if reply, err := req.Traffic.Begin(ctx, c); err != nil || reply != nil {
				break
			}
			req.Traffic.End(c, agent.Reply{Status: 200, Type: "text/event-stream", Body: fmt.Append(nil, "said ", i)}, each)
		}
		return agent.Result{Output: []byte(status("done")), Model: "m", Session: "s", Usage: agent.Usage{OutputTokens: 1}}, nil
	}
}

func turnBody(turn int) []byte {
	var messages []string
	for i := range 2*turn + 1 {
		messages = append(messages, fmt.Sprintf(`{"role":"user","content":"%d %s"}`, i, strings.Repeat("said ", 100)))
	}
	return fmt.Appendf(nil, `{"model":"m","max_tokens":500,"messages":[%s],"turn":%d}`, strings.Join(messages, ","), turn)
}

// TestCallsAreRecorded checks that the calls to a model are in the step, that its usage is counted from them, and that
// the record is complete.
func TestCallsAreRecorded(t *testing.T) {
	bytes := func(turns int) (n int) {
		h := newHouse(t, map[string]scripted{"ask": talks(turns, agent.Usage{InputTokens: 10, OutputTokens: 2})})
		c := h.controller()
		row := h.drive(c, h.beginWith(c, askFlow, Options{Record: true}).ID, Resume{})
		wantStatus(t, row, store.Completed, "")
		if r, err := verify.Thread(t.Context(), verify.Config{Store: h.store}, row.ID); err != nil || !r.OK() {
			t.Fatalf("%v %+v", err, r.Problems)
		}
		a := h.attempts(row)[0]
		if a.Usage.InputTokens != int64(10*turns) || a.Usage.OutputTokens != int64(2*turns) {
			t.Errorf("used %+v", a.Usage)
		}
		i := 0
		for x, err := range thread.NewReader(h.store).Exchanges(t.Context(), a.Calls) {
			if err != nil || string(x.Body) != string(turnBody(i)) || string(x.Reply) != fmt.Sprint("said ", i) || x.Usage.InputTokens != 10 {
				t.Fatalf("call %d: %v, %s", i, err, x.Body)
			}
			i++
		}
		if i != turns {
			t.Errorf("%d of %d calls", i, turns)
		}
		for e, err := range h.store.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			n += int(e.Size)
		}
		return n
	}
	if first, second := bytes(25), bytes(50); second > 2*first+first/10 {
		t.Errorf("25 turns take %d bytes, 50 take %d", first, second)
	}
}

func TestCallsAreNotRecorded(t *testing.T) {
	h := newHouse(t, map[string]scripted{"ask": talks(2, agent.Usage{InputTokens: 10})})
	if a := h.attempts(h.run(askFlow))[0]; !a.Calls.IsZero() || a.Usage.InputTokens != 20 {
		t.Errorf("%+v", a)
	}
}

// TestCallsOfAFailure: the calls of a failed attempt are kept in the step that a later attempt became.
func TestCallsOfAFailure(t *testing.T) {
	good := talks(1, agent.Usage{InputTokens: 1})
	var tries int
	h := newHouse(t, map[string]scripted{"ask": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		res, err := good(ctx, req, emit)
		if tries++; tries == 1 {
			return agent.Result{}, &agent.Failure{Kind: agent.Infra, Message: "broke"}
		}
		return res, err
	}})
	c := h.controller()
	row := h.drive(c, h.beginWith(c, replaceOnce(askFlow, "asks its model}", "asks its model, retry: {max: 1}}"), Options{Record: true}).ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	r := thread.NewReader(h.store)
	for s, err := range r.Walk(t.Context(), row.Head) {
		if err != nil {
			t.Fatal(err)
		}
		if s.State.Role != "ask" {
			continue
		}
		d, err := r.Detail(t.Context(), s.State.Detail)
		if err != nil {
			t.Fatal(err)
		}
		if d.Calls.IsZero() || len(d.Attempts) != 1 || d.Attempts[0].Calls.IsZero() || d.Usage.InputTokens != 2 {
			raw, _ := json.Marshal(d)
			t.Errorf("%s", raw)
		}
	}
}

// TestABudgetIsHard checks that requests are refused once a limit is used up, whatever the agent does about it.
func TestABudgetIsHard(t *testing.T) {
	each := agent.Usage{InputTokens: 90, OutputTokens: 10}
	h := newHouse(t, map[string]scripted{"ask": talks(10, each)})
	c := h.controller()
	row := h.drive(c, h.beginWith(c, askFlow, Options{Limits: flow.Limits{MaxTokens: 250}}).ID, Resume{})
	wantStatus(t, row, store.Blocked, "limit")
	a := h.attempts(row)
	if row.Reason.Limit != "tokens" || len(a) != 1 || a[0].Usage.Tokens() != 300 || a[0].Failure.Kind != store.FailureLimit {
		t.Errorf("%+v, %+v", row.Reason, a)
	}
	if row = h.drive(h.controller(), row.ID, Resume{}); row.Status != store.Blocked || len(h.attempts(row)) != 1 {
		t.Errorf("resumed within the same limit: %s, %d attempts", row.Status, len(h.attempts(row)))
	}
	row = h.drive(h.controller(), row.ID, Resume{Options: Options{Limits: flow.Limits{MaxTokens: 5000}}})
	wantStatus(t, row, store.Completed, "")
}

// TestCostIsHard: the second request is refused if the first one has used up the limit.
func TestCostIsHard(t *testing.T) {
	h := newHouse(t, map[string]scripted{"ask": talks(10, agent.Usage{InputTokens: 90, OutputTokens: 10, CostMicroUSD: 3})})
	c := h.controller()
	row := h.drive(c, h.beginWith(c, askFlow, Options{Limits: flow.Limits{MaxCostMicroUSD: 1}}).ID, Resume{})
	wantStatus(t, row, store.Blocked, "limit")
	if a := h.attempts(row); row.Reason.Limit != "micro-dollars" || a[0].Usage.CostMicroUSD != 3 {
		t.Errorf("%+v, %+v", row.Reason, a)
	}
}

// TestCostWithoutAPrice: a scripted model has a price if cost is limited; for any other without a known price
// people are told, once, that the limit does not hold.
func TestCostWithoutAPrice(t *testing.T) {
	const told = "no price of m is known: maxCostMicroUSD does not hold for it"
	each := agent.Usage{InputTokens: 90, OutputTokens: 10}
	for _, c := range []struct {
		name        string
		options     Options
		blocked     bool
		told        int
		cost, calls int64
	}{
		{"scripted", Options{Offline: "auto", Limits: flow.Limits{MaxCostMicroUSD: 1}}, true, 0, 100, 1},
		{"no limit", Options{Offline: "auto"}, false, 0, 0, 3},
		{"real", Options{Limits: flow.Limits{MaxCostMicroUSD: 1}}, false, 1, 0, 3},
		{"real, no limit on cost", Options{Limits: flow.Limits{MaxTokens: 10_000}}, false, 0, 0, 3},
	} {
		h := newHouse(t, map[string]scripted{"ask": talks(3, each)})
		row := h.drive(h.controller(), h.beginWith(h.controller(), askFlow, c.options).ID, Resume{})
		a := h.attempts(row)
		if (row.Status == store.Blocked) != c.blocked || a[0].Usage.CostMicroUSD != c.cost || a[0].Usage.Tokens() != 100*c.calls {
			t.Errorf("%s: %s, %+v", c.name, row.Status, a[0].Usage)
		}
		if n := strings.Count(strings.Join(h.payloads(row, "agent.item"), ""), told); n != c.told {
			t.Errorf("%s: it was told %d times that the limit does not hold", c.name, n)
		}
	}
}

const pair = `version: 1
name: pair
description: d
roles:
  ask: {description: asks its model}
  beg: {description: asks its model}
forks:
  both: {forkPaths: [{pathId: a, childNodeId: ask}, {pathId: b, childNodeId: beg}]}
joins:
  met: {forkPathIds: [a, b]}
graph:
  $START: {new: {role: both, prompt: go}}
  ask: {done: {role: met}}
  beg: {done: {role: met}}
  met: {joined: {role: $END, prompt: over}}
`

// TestAgentsShareABudget: if two concurrent requests may use more than is left, one waits until the other's usage is
// known.
func TestAgentsShareABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		leased, most, sent := 0, 0, 0
		one := func(ctx context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
			for {
				c := &agent.Call{Method: "POST", Path: "/responses", Body: []byte(`{"max_output_tokens":60,"input":[]}`)}
				if _, err := req.Traffic.Begin(ctx, c); err != nil {
					return agent.Result{}, &agent.Failure{Kind: agent.Infra, Message: "the model is gone"}
				}
				mu.Lock()
				leased, sent = leased+1, sent+1
				most = max(most, leased)
				mu.Unlock()
				synctest.Wait() // the other one asks meanwhile
				mu.Lock()
				leased--
				mu.Unlock()
				req.Traffic.End(c, agent.Reply{Status: 200}, agent.Usage{OutputTokens: 60})
			}
		}
		h := newHouse(t, map[string]scripted{"ask": one, "beg": one})
		c := h.controller()
		row := h.drive(c, h.beginWith(c, pair, Options{Limits: flow.Limits{MaxTokens: 100}}).ID, Resume{})
		if row.Status != store.Blocked || most != 1 || sent != 2 {
			t.Errorf("%s: %d requests, %d at the same time", row.Status, sent, most)
		}
		if _, tokens := h.spent(); tokens != 120 {
			t.Errorf("%d tokens", tokens)
		}
	})
}
