package gateway

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/plait-run/plait/internal/agent"
)

// An Exchange is a recorded call and its reply.
type Exchange struct {
	Call  agent.Call
	Reply agent.Reply
}

// A Tape answers the calls of an attempt that is made again with the recording of the first time;
// none is sent. It may be used concurrently. A call is answered with
//
//   - the first unused recording that is equal, except for what differs from run to run
//     (see [Known]);
//   - otherwise the first unused one of its lane, the calls of one kind of conversation: the difference
//     is drift;
//   - otherwise nothing: it is refused, and the refusal says how it differs from the most similar recording.
//
// A recording is used once.
type Tape struct {
	now Known

	mu     sync.Mutex
	takes  []take
	calls  int
	drifts []Drift
	missed error
}

var _ agent.Traffic = (*Tape)(nil)

// A Drift says how a call differs from the recording that answered it.
type Drift struct {
	Call  int    `json:"call"`  // of the attempt, from 1; 0: the prompt of a program
	Where string `json:"where"` // in its body, as a JSON pointer; "" in a prompt
	Then  string `json:"then"`  // what was recorded there
	Now   string `json:"now"`
}

func (d Drift) String() string {
	if d.Call == 0 {
		return fmt.Sprintf("its prompt differs: recorded %s, now %s", d.Then, d.Now)
	}
	return fmt.Sprintf("call %d differs at %s: recorded %s, now %s", d.Call, d.Where, d.Then, d.Now)
}

// A take is a recording in the form used for lookup.
type take struct {
	asked asked
	reply agent.Reply
	used  bool
}

// asked is a call without what differs from run to run.
type asked struct {
	value any // of its body
	whole [sha256.Size]byte
	lane  [sha256.Size]byte
}

// NewTape returns a tape of what was recorded, in the order of the calls. then are the values that were
// known during the recording, now those that are known where it is played.
func NewTape(list []Exchange, then, now Known) *Tape {
	t := &Tape{now: now}
	for _, e := range list {
		if e.Reply.Status == 0 { // there was none
			e.Reply = agent.Reply{Status: http.StatusBadGateway, Type: "text/plain", Body: []byte("no answer is recorded")}
		}
		t.takes = append(t.takes, take{asked: then.of(e.Call), reply: e.Reply})
	}
	return t
}

// Begin returns the recorded reply to a call, see [agent.Traffic].
func (t *Tape) Begin(_ context.Context, c *agent.Call) (*agent.Reply, error) {
	a := t.now.of(*c)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls++
	find := func(same func(asked) bool) *take {
		for i := range t.takes {
			if k := &t.takes[i]; !k.used && same(k.asked) {
				k.used = true
				return k
			}
		}
		return nil
	}
	if k := find(func(b asked) bool { return b.whole == a.whole }); k != nil {
		return &k.reply, nil
	}
	if k := find(func(b asked) bool { return b.lane == a.lane }); k != nil {
		t.drifts = append(t.drifts, t.drift(k.asked, a))
		return &k.reply, nil
	}
	err := t.miss(a)
	if t.missed == nil {
		t.missed = err
	}
	return nil, err
}

// End is never called: no call is sent.
func (t *Tape) End(*agent.Call, agent.Reply, agent.Usage) {}

// Drifts returns how calls differed from the recordings that answered them.
func (t *Tape) Drifts() []Drift {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.drifts
}

// Missed returns the first refusal, nil if every call was answered.
func (t *Tape) Missed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.missed
}

// drift returns how the current call differs from a recording.
func (t *Tape) drift(then, now asked) Drift {
	d := difference(then.value, now.value)
	d.Call = t.calls
	return d
}

// miss returns the error for a call for which no recording is left: how it differs from the most similar one.
func (t *Tape) miss(a asked) error {
	if len(t.takes) == 0 {
		return fmt.Errorf("call %d of the model was not recorded: the recording of this attempt has none", t.calls)
	}
	near, most := t.takes[0], -1
	for _, k := range t.takes {
		if n := likeness(k.asked.value, a.value); n > most {
			near, most = k, n
		}
	}
	if near.asked.whole == a.whole {
		return fmt.Errorf("call %d of the model was not recorded: it asks again what has been answered as often as it "+
			"was recorded", t.calls)
	}
	return fmt.Errorf("call %d of the model was not recorded; from the most similar recording it %s", t.calls,
		strings.TrimPrefix(t.drift(near.asked, a).String(), fmt.Sprintf("call %d ", t.calls)))
}
