package attempt

import (
	"slices"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/evidence"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/proc"
)

// Means are what an attempt is given to work with.
type Means struct {
	Slot Slot          // held while the agent works, nil: it needs none
	Left time.Duration // time that the task's agents have left, zero: unlimited
}

// A run is an attempt at work.
type run struct {
	e     *Runner
	c     *Thread
	p     *Prepared
	means Means

	row      store.Attempt     // as it is now
	desk     agent.Directory   // nil: not open yet
	readable map[dag.Hash]bool // nodes and steps of the record that the agent can read
	begun    bool              // the agent may have started
	vendor   string            // the session that it works in, once known
	cell     *proc.Cell        // where its programs are started, nil: where this process is

	asks     *gatekeeper // nil: it cannot ask
	listens  *listener   // nil: the agent cannot hear people
	news     *news
	activity *evidence.Activities
	updating sync.Mutex // held while the row is changed

	leftovers
}

// leftovers are what an attempt leaves besides its answer.
type leftovers struct {
	logged   int64    // bytes of the transcript
	before   string   // git tree, "" if unknown
	after    string   // git tree
	files    dag.Hash // tree node of after
	session  dag.Hash // session node
	evidence evidence.Kept
	calls    []store.Object // nodes of the requests to the model
	bytes    store.Staging  // what goes with the attempt's end
	large    store.Staging  // large requests to the model and replies
	refused  bool           // see Outcome
	spent    agent.Usage    // by an agent that has answered
	requests [2]int64       // tokens of the messages in the first and the last request to the model, zero: not seen
	memory   *thread.Memory // when it is replayed, as recorded
}

func (e *Runner) newRun(c *Thread, p *Prepared, m Means) *run {
	staging := store.Staging{Store: e.cfg.Store, Pin: p.Row.ID}
	return &run{e: e, c: c, p: p, means: m, row: p.Row, leftovers: leftovers{bytes: staging, large: staging}}
}

// update changes the row of an attempt while its agent works, and saves it, with the objects it names.
func (r *run) update(objects []store.Object, change func(*store.Attempt)) {
	r.updating.Lock()
	defer r.updating.Unlock()
	change(&r.row)
	row := r.row
	r.news.queue(func() error {
		return r.news.commit(store.Batch{
			Objects: objects, Attempts: []store.AttemptChange{{Row: row, From: store.AttemptRunning}},
		})
	})
}

// unpin returns the pins that end with the attempt.
func (k *leftovers) unpin() []string {
	return slices.Compact(append(k.bytes.Unpin(), k.large.Unpin()...))
}
