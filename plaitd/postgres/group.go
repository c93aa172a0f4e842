package postgres

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

var (
	errNoID   = errors.New("row without an id")
	errNoHash = errors.New("has no bundle hash")
	errNoTime = errors.New("taken without a time")
)

// A change is a batch, plus what only this package changes.
type change struct {
	store.Batch
	bodies  [][]byte   // of Objects, packed
	rows    [][]byte   // of threads, attempts, gates, flows, requests and redacted requests, in this order
	locs    []string   // of Objects stored elsewhere; nil: none is
	sizes   []int64    // of those
	touched []dag.Hash // that count as just put
	pins    []pinned   // to add
	ended   []string   // uploads that end
	bytes   int
}

type pinned struct {
	pin  string
	hash dag.Hash
}

// A rest is the rare part of a group, as JSON.
type rest struct {
	Remove   []restRemove  `json:"remove,omitempty"`
	Touch    []restHash    `json:"touch,omitempty"`
	Gates    []restGate    `json:"gates,omitempty"`
	Flows    []restFlow    `json:"flows,omitempty"`
	Requests []restRequest `json:"wishes,omitempty"`
	Counts   []restCount   `json:"counts,omitempty"`
	Uploads  []restUpload  `json:"uploads,omitempty"`
	Redact   []restRedact  `json:"redact,omitempty"`
}

type (
	restRemove struct {
		B    int32  `json:"b"`
		Root string `json:"root"`
	}
	restHash struct {
		B    int32    `json:"b"`
		Hash dag.Hash `json:"hash"`
	}
	restGate struct {
		B      int32           `json:"b"`
		From   store.GateState `json:"from"`
		Used0  int64           `json:"used0"`
		ID     string          `json:"id"`
		Task   string          `json:"task"`
		Thread string          `json:"thread"`
		State  store.GateState `json:"state"`
		Used   int64           `json:"used"`
		Names  []byte          `json:"names"`
		Row    []byte          `json:"row"`
	}
	restFlow struct {
		B     int32  `json:"b"`
		From  []byte `json:"from"`
		Hash  []byte `json:"hash"`
		Gone  bool   `json:"gone"`
		Name  string `json:"name"`
		Names []byte `json:"names"`
		Row   []byte `json:"row"`
	}
	restRequest struct {
		B      int32  `json:"b"`
		Take   bool   `json:"take"`
		ID     string `json:"id"`
		Task   string `json:"task"`
		Thread string `json:"thread"`
		Taken  int64  `json:"taken"`
		Row    []byte `json:"row"`
	}
	restCount struct {
		B    int32  `json:"b"`
		Task string `json:"task"`
		Name string `json:"name"`
		Add  int64  `json:"add"`
		Most int64  `json:"most"`
	}
	restUpload struct {
		B   int32  `json:"b"`
		Loc string `json:"loc"`
	}
	// restRedact has what takes the place of an object's bytes, of a request's row, or of an event's payload.
	restRedact struct {
		B       int32    `json:"b"`
		Hash    dag.Hash `json:"hash,omitzero"`
		Size    int64    `json:"size,omitempty"`
		Request string   `json:"wish,omitempty"`
		Event   int64    `json:"event,omitempty"`
		Data    []byte   `json:"data"`
	}
)

// prepare refuses a change that is wrong by itself, and does what does not need the
// writer goroutine, which all callers wait for.
func (c *change) prepare() error {
	if err := c.Check(); err != nil {
		return err
	}
	c.Prove()
	for _, x := range c.Threads {
		if err := c.encode("thread", x.Row.ID, nil, func() ([]byte, error) { return encodeThread(x.Row) }); err != nil {
			return err
		}
	}
	for _, x := range c.Attempts {
		if err := c.encode("attempt", x.Row.ID, nil, func() ([]byte, error) { return encodeAttempt(x.Row) }); err != nil {
			return err
		}
	}
	for _, x := range c.Gates {
		if err := c.encode("gate", x.Row.ID, nil, func() ([]byte, error) { return encodeGate(x.Row) }); err != nil {
			return err
		}
	}
	for _, x := range c.Flows {
		var wrong error
		if x.Row.Hash.IsZero() && !x.Delete {
			wrong = errNoHash
		}
		if err := c.encode("flow", x.Row.Name, wrong, func() ([]byte, error) { return encodeFlow(x.Row) }); err != nil {
			return err
		}
	}
	for _, x := range c.Requests {
		var wrong error
		if x.Take && x.Row.TakenAt == 0 {
			wrong = errNoTime
		}
		if err := c.encode("request", x.Row.ID, wrong, func() ([]byte, error) { return encodeRequest(x.Row) }); err != nil {
			return err
		}
	}
	for _, w := range c.Redact.Requests {
		if err := c.encode("request", w.ID, nil, func() ([]byte, error) { return encodeRequest(w) }); err != nil {
			return err
		}
	}
	for _, o := range c.Redact.Objects {
		c.bytes += 2 * len(o.Data)
	}
	for _, e := range c.Events {
		c.bytes += len(e.Payload) + len(e.Proof) + 200
	}
	return nil
}

func (c *change) encode(what, id string, wrong error, f func() ([]byte, error)) error {
	if id == "" {
		wrong = errNoID
	}
	if wrong != nil {
		return fmt.Errorf("%s %s: %w", what, id, wrong)
	}
	row, err := f()
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, id, err)
	}
	c.rows = append(c.rows, row)
	c.bytes += len(row) + 200
	return nil
}

// A group holds the parameters of plait.commit, in order.
type group struct {
	n, rounds int32
	rest      rest
	rare      bool

	fenceB     []int32
	fenceName  []string
	fenceToken []int64

	objectB     []int32
	objectHash  [][]byte
	objectKind  []int32
	objectSize  []int64
	objectBody  [][]byte
	objectLoc   []string
	objectAgain []bool
	objectAt    map[dag.Hash]int // index of the occurrence that is not marked again

	refB               []int32
	refTable, refRow   []string
	refHash            [][]byte
	threadB, threadNth []int32
	threadSwap         []bool
	fromHead           [][]byte

	fromStatus, fromWanted                                         []string
	threadID, threadTask, threadRoot, threadShort, threadKind      []string
	threadWorkspace                                                []string
	threadBundle                                                   [][]byte
	threadStatus, threadWanted                                     []string
	threadHead, threadNames, threadRow                             [][]byte
	attemptB, attemptNth                                           []int32
	attemptFrom, attemptID, attemptThread                          []string
	attemptN                                                       []int64
	attemptOrigin                                                  [][]byte
	attemptStatus                                                  []string
	attemptNames, attemptRow                                       [][]byte
	eventB                                                         []int32
	eventTS                                                        []int64
	eventType, eventTask, eventThread, eventInstance, eventAttempt []string
	eventPayload, eventProof                                       [][]byte
	eventOf                                                        []int32  // its task's index in task, from 1
	eventLeft                                                      []int64  // how many events of its task follow
	task                                                           []string // of events, in order
	taskEvents                                                     []int64
	taskSecret                                                     [][]byte // for one that is new
	pinB                                                           []int32
	pinPin                                                         []string
	pinHash                                                        [][]byte
	unpinB                                                         []int32
	unpinPin                                                       []string
}

// args returns the arguments of plait.commit.
func (g *group) args(id []byte, again bool) ([]any, error) {
	var rare any
	if g.rare {
		data, err := json.Marshal(g.rest)
		if err != nil {
			return nil, err
		}
		rare = data
	}
	return []any{
		int64(lockKey), id, again, g.n, g.rounds, rare,
		g.fenceB, g.fenceName, g.fenceToken,
		g.objectB, g.objectHash, g.objectKind, g.objectSize, g.objectBody, g.objectLoc, g.objectAgain,
		g.refB, g.refTable, g.refRow, g.refHash,
		g.threadB, g.threadNth, g.threadSwap, g.fromHead, g.fromStatus, g.fromWanted,
		g.threadID, g.threadTask, g.threadRoot, g.threadShort, g.threadKind, g.threadWorkspace,
		g.threadBundle, g.threadStatus, g.threadWanted, g.threadHead, g.threadNames, g.threadRow,
		g.attemptB, g.attemptNth, g.attemptFrom, g.attemptID, g.attemptThread, g.attemptN, g.attemptOrigin,
		g.attemptStatus, g.attemptNames, g.attemptRow,
		g.eventB, g.eventTS, g.eventType, g.eventTask, g.eventThread, g.eventInstance, g.eventAttempt, g.eventPayload,
		g.eventProof, g.eventOf, g.eventLeft, g.task, g.taskEvents, g.taskSecret,
		g.pinB, g.pinPin, g.pinHash, g.unpinB, g.unpinPin,
	}, nil
}
