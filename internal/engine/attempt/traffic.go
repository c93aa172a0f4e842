package attempt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Purse is what an attempt spends from while it works: what is left of the limits of its thread and of those
// above it. Several attempts may spend from the same limits at the same time.
type Purse interface {
	// Reserve reserves u for a request. It returns the limit that is used up, or nil. If requests under way
	// have reserved so much that less than u may be left, it waits until they have spent it.
	Reserve(ctx context.Context, u store.Usage) (*store.Reason, error)
	// Spend replaces the amount reserved for a request by the usage of that request.
	Spend(reserved, used store.Usage)
}

// traffic observes the requests of an attempt to its model, see [agent.Traffic].
type traffic struct {
	run   *run
	purse Purse     // nil: unlimited
	tape  *recorder // nil: nothing is recorded
	costs bool      // there is a limit on cost
	play  bool      // the model is a scripted one

	mu      sync.Mutex
	asked   map[*agent.Call]*asked // calls under way
	sizes   map[string]*sizes      // by model
	calls   int
	used    store.Usage
	last    asked // the last call answered
	guessed bool  // people were told that some usage is an estimate
	free    bool  // people were told that a price is unknown
	refused *store.Reason
}

// asked is what is remembered about a call until it ends.
type asked struct {
	model    string
	reserved store.Usage
	bytes    int64
	input    int64 // tokens, as reported at the end
	entry    *thread.ModelCall
}

// traffic returns the traffic of an attempt's agent.
func (r *run) traffic() *traffic {
	t := &traffic{run: r, asked: map[*agent.Call]*asked{}, sizes: map[string]*sizes{}, play: r.c.Options.Offline != ""}
	if r.c.Budget != nil {
		t.costs = r.c.Budget().CostMicroUSD != nil
	}
	if r.c.Purse != nil {
		t.purse = r.c.Purse(r.row.ID)
	}
	if r.c.Options.Record {
		t.tape = r.newRecorder()
	}
	return t
}

// Begin reserves what a call may use, or refuses the call.
func (t *traffic) Begin(ctx context.Context, c *agent.Call) (*agent.Reply, error) {
	a := &asked{bytes: int64(len(c.Body))}
	if c.Generates() {
		t.estimate(a, c)
		if t.purse != nil {
			why, err := t.purse.Reserve(ctx, a.reserved)
			if err != nil {
				return nil, err
			}
			if why != nil {
				t.mu.Lock()
				defer t.mu.Unlock()
				t.refused = why
				return nil, errors.New(why.Message)
			}
		}
	}
	if t.tape != nil { // before the call is sent, so that calls are recorded in the order sent
		if err := t.tape.ask(ctx, a, c, t.run.e.now()); err != nil {
			if t.purse != nil {
				t.purse.Spend(a.reserved, store.Usage{})
			}
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked[c] = a
	return nil, nil
}

const (
	maxAnswer   = 1 << 20  // most tokens that are reserved for an answer, whatever the request allows
	usualAnswer = 32 << 10 // tokens that are reserved for it if the request sets no limit
)

// estimate reserves what a request may use: as many tokens per byte as the previous request turned out to have,
// plus what the answer may have.
func (t *traffic) estimate(a *asked, c *agent.Call) {
	var f struct {
		Model         string
		MaxTokens     int64 `json:"max_tokens"`
		MaxOutput     int64 `json:"max_output_tokens"`
		MaxCompletion int64 `json:"max_completion_tokens"`
		Generation    struct {
			MaxOutput int64 `json:"maxOutputTokens"`
		} `json:"generationConfig"`
	}
	frame, _, _ := thread.CutBody(c.Body)
	_ = json.Unmarshal(frame, &f) // as far as it can be parsed
	a.model = cmp.Or(f.Model, c.Model())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.measure(a.model, len(c.Body)-len(frame))
	last := t.last
	a.reserved.InputTokens = a.bytes / 4
	if last.input > 0 && last.bytes > 0 {
		a.reserved.InputTokens = int64(float64(a.bytes) * float64(last.input) / float64(last.bytes))
	}
	allowed := max(0, f.MaxTokens, f.MaxOutput, f.MaxCompletion, f.Generation.MaxOutput)
	a.reserved.OutputTokens = min(cmp.Or(allowed, usualAnswer), maxAnswer)
	a.reserved = t.priced(a.model, agent.Usage(a.reserved))
}

// sizes are the bytes of the messages in the requests to one model.
type sizes struct{ first, last, most int }

func (t *traffic) measure(model string, size int) {
	s := t.sizes[model]
	if s == nil {
		s = &sizes{first: size}
		t.sizes[model] = s
	}
	s.last, s.most = size, max(s.most, size)
}

// requests returns the tokens of the messages in the first and the last request of the conversation. Agents have
// smaller ones with other models beside it.
func (t *traffic) requests() (of [2]int64) {
	most := 0
	for _, s := range t.sizes {
		if s.most > most {
			most, of = s.most, [2]int64{int64(prompt.ApproxTokens(s.first)), int64(prompt.ApproxTokens(s.last))}
		}
	}
	return of
}

// priced returns u with its cost. If cost is limited, a token of a scripted model costs a millionth of a
// dollar, so that such limits can be tested; for any other model without a known price, people are told.
func (t *traffic) priced(model string, u agent.Usage) store.Usage {
	u = t.run.e.cfg.Agents.priced(model, u)
	_, known := t.run.e.cfg.Agents.Prices.Of(model)
	if !t.costs || known || u.CostMicroUSD > 0 {
		return store.Usage(u)
	}
	if t.play {
		u.CostMicroUSD = u.InputTokens + u.OutputTokens
		return store.Usage(u)
	}
	if !t.free {
		t.free = true
		t.tell("no price of " + model + " is known: maxCostMicroUSD does not hold for it; see prices in the configuration")
	}
	return store.Usage(u)
}

// tell reports something to people.
func (t *traffic) tell(text string) {
	_ = t.run.news.emit(agent.Event{Kind: agent.EventProgress, Text: text}) // the next event returns the error too
}

// End counts the usage of a call.
func (t *traffic) End(c *agent.Call, r agent.Reply, used agent.Usage) {
	a, spent := t.count(c, r, used)
	// Not under the lock: both may wait for the store.
	if c.Generates() && t.purse != nil {
		t.purse.Spend(a.reserved, spent)
	}
	if t.tape != nil {
		t.tape.answer(a, r, spent)
	}
}

// count adds the usage of a call to what the attempt has used.
func (t *traffic) count(c *agent.Call, r agent.Reply, used agent.Usage) (*asked, store.Usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.asked[c]
	delete(t.asked, c)
	spent := t.priced(a.model, used)
	if c.Generates() {
		t.calls++
		t.used = t.used.Add(spent)
		if a.input = used.InputTokens; a.input > 0 && !r.Estimated {
			t.last = asked{bytes: a.bytes, input: a.input} // the rest belongs to the tape, which may be writing
		}
	}
	if r.Estimated && !r.Cut && !t.guessed {
		t.guessed = true
		t.tell("the model does not say how many tokens it used: they are estimated")
	}
	return a, spent
}

// close is called once the agent has ended. It corrects the result by what the traffic saw: a gateway counts
// more reliably than agents do, and agents need not report that a request was refused.
func (t *traffic) close(result *agent.Result, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var fail *agent.Failure
	failed := errors.As(err, &fail)
	t.run.requests = t.requests()
	if t.calls > 0 {
		result.Usage = agent.Usage(t.used)
		if failed {
			fail.Usage = agent.Usage(t.used)
		}
	}
	if t.refused != nil && (err == nil || failed && fail.Kind != agent.Cancelled) {
		over := &agent.Failure{Session: result.Session, Exit: result.Exit, Model: result.Model, Usage: result.Usage}
		if failed {
			*over = *fail
		}
		over.Kind, over.Message, over.Final = agent.Limit, t.refused.Message, true
		t.run.refused, err = true, over
	}
	if t.tape != nil {
		var bad error
		if t.run.row.Calls, t.run.calls, bad = t.tape.close(); bad != nil {
			// Not joined with err: after a failure of the agent the step would be committed, without bytes that it names.
			return fmt.Errorf("keep the requests to the model: %w", bad)
		}
	}
	return err
}

// A recorder keeps calls while the agent works. A call waits only if many are still to be kept. Small ones go with
// the attempt's row as soon as they are answered, and so survive if Plait dies; large ones are staged.
type recorder struct {
	run  *run
	jobs chan func()
	done chan struct{}

	// Owned by close, and by the jobs, which run one after the other.
	book  thread.CallRecorder
	small []store.Object
	bytes int
	err   error
}

// maxSmall bounds the bytes that wait to go with the row.
const maxSmall = 8 << 20

func (r *run) newRecorder() *recorder {
	tape := &recorder{run: r, jobs: make(chan func(), 64), done: make(chan struct{})}
	go func() {
		defer close(tape.done)
		for job := range tape.jobs {
			job()
		}
	}()
	return tape
}

func (r *recorder) ask(ctx context.Context, a *asked, c *agent.Call, at int64) error {
	m := thread.ModelCall{At: at, Method: c.Method, Path: c.Path, Model: c.Model(), Type: c.Type, Cut: true}
	job := func() {
		var blobs []store.Object
		a.entry, blobs = r.book.Request(m, c.Body)
		r.keep(blobs)
	}
	select {
	case r.jobs <- job:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *recorder) answer(a *asked, reply agent.Reply, used store.Usage) {
	r.jobs <- func() {
		m := a.entry
		m.Status, m.ReplyType, m.Cut, m.Usage, m.Estimated = reply.Status, reply.Type, reply.Cut, used, reply.Estimated
		r.keep(r.book.Response(m, reply.Body))
		r.publish()
	}
}

// publish adds the answered calls to the attempt's row.
func (r *recorder) publish() {
	last, nodes, needs, err := r.book.Answered()
	if r.err = errors.Join(r.err, err); r.err != nil || len(nodes) == 0 {
		return
	}
	waiting := r.small[:0:0]
	r.bytes = 0
	for _, o := range r.small {
		if needs[o.Hash] {
			nodes = append(nodes, o)
		} else {
			waiting, r.bytes = append(waiting, o), r.bytes+len(o.Data)
		}
	}
	r.small = waiting
	r.run.update(nodes, func(a *store.Attempt) { a.Calls = last })
}

func (r *recorder) keep(blobs []store.Object) {
	for _, b := range blobs {
		if len(b.Data) <= store.MaxInline && r.bytes+len(b.Data) <= maxSmall {
			r.small, r.bytes = append(r.small, b), r.bytes+len(b.Data)
		} else if r.err == nil {
			_, _, r.err = r.run.large.Stage(context.Background(), bytes.NewReader(b.Data))
		}
	}
}

// close returns the node of all calls, and the objects that go with it.
func (r *recorder) close() (dag.Hash, []store.Object, error) {
	close(r.jobs)
	<-r.done
	last, nodes, err := r.book.Nodes()
	return last, append(r.small, nodes...), errors.Join(r.err, err)
}
