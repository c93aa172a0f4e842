package postgres

import (
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// groupOf combines several changes into one group.
func groupOf(changes []*change) *group {
	g := &group{rounds: 1, objectAt: map[dag.Hash]int{}}
	for _, c := range changes {
		g.n++
		g.add(c)
	}
	g.tasks()
	return g
}

// add adds a change as the group's last batch.
func (g *group) add(c *change) {
	b := g.n
	for _, f := range c.Under {
		g.fenceB, g.fenceName, g.fenceToken = append(g.fenceB, b), append(g.fenceName, f.Name), append(g.fenceToken, f.Token)
	}
	for i := range c.Objects {
		g.object(c, i)
	}
	rows := c.rows
	rows = rows[g.threads(c, rows):]
	rows = rows[g.attempts(c, rows):]
	for i, x := range c.Gates {
		g.names("gate ", x.Row.ID, nil, x.Row.Diff)
		g.rare = true
		g.rest.Gates = append(g.rest.Gates, restGate{
			B: b, From: x.From, Used0: x.UsedAt, ID: x.Row.ID, Task: x.Row.Task, Thread: x.Row.Thread,
			State: x.Row.State, Used: x.Row.UsedAt, Names: joined(x.Row.Roots()), Row: rows[i],
		})
	}
	rows = rows[len(c.Gates):]
	for i, x := range c.Flows {
		if !x.Delete {
			hs := []dag.Hash{x.Row.Hash}
			for _, v := range x.Row.History {
				hs = append(hs, v.Hash)
			}
			g.names("flow ", x.Row.Name, nil, hs...)
		}
		g.rare = true
		g.rest.Flows = append(g.rest.Flows, restFlow{
			B: b, From: bytesOf(x.From), Hash: bytesOf(x.Row.Hash), Gone: x.Delete, Name: x.Row.Name,
			Names: joined(x.Row.Roots()), Row: rows[i],
		})
	}
	rows = rows[len(c.Flows):]
	g.rarer(c, rows)
	for _, e := range c.Events {
		g.eventB, g.eventTS = append(g.eventB, b), append(g.eventTS, e.TS)
		g.eventType, g.eventTask = append(g.eventType, e.Type), append(g.eventTask, e.Task)
		g.eventThread, g.eventInstance = append(g.eventThread, e.Thread), append(g.eventInstance, e.Instance)
		g.eventAttempt, g.eventPayload = append(g.eventAttempt, e.Attempt), append(g.eventPayload, e.Payload)
		g.eventProof = append(g.eventProof, e.Proof)
	}
	for _, p := range c.pins {
		g.pinB, g.pinPin, g.pinHash = append(g.pinB, b), append(g.pinPin, p.pin), append(g.pinHash, p.hash[:])
	}
	for _, pin := range c.Unpin {
		g.unpinB, g.unpinPin = append(g.unpinB, b), append(g.unpinPin, pin)
	}
}

// tasks counts the events of each task, and makes a secret for it in case it is new.
func (g *group) tasks() {
	g.task = slices.Clone(g.eventTask)
	slices.Sort(g.task)
	g.task = slices.Compact(g.task)
	g.taskEvents, g.taskSecret = make([]int64, len(g.task)), make([][]byte, len(g.task))
	g.eventOf, g.eventLeft = make([]int32, len(g.eventTask)), make([]int64, len(g.eventTask))
	for i := len(g.eventTask) - 1; i >= 0; i-- {
		of, _ := slices.BinarySearch(g.task, g.eventTask[i])
		g.eventOf[i], g.eventLeft[i] = int32(of+1), g.taskEvents[of]
		g.taskEvents[of]++
	}
	for i := range g.taskSecret {
		secret := store.NewSecret()
		g.taskSecret[i] = secret[:]
	}
}

func (g *group) rarer(c *change, rows [][]byte) {
	b := g.n
	for i, x := range c.Requests {
		g.rest.Requests = append(g.rest.Requests, restRequest{
			B: b, Take: x.Take, ID: x.Row.ID, Task: x.Row.Task, Thread: x.Row.Thread, Taken: x.Row.TakenAt, Row: rows[i],
		})
	}
	for _, x := range c.Counts {
		g.rest.Counts = append(g.rest.Counts, restCount{B: b, Task: x.Task, Name: x.Name, Add: x.Add, Most: x.Most})
	}
	for _, root := range c.Remove {
		g.rest.Remove = append(g.rest.Remove, restRemove{B: b, Root: root})
	}
	for _, h := range c.touched {
		g.rest.Touch = append(g.rest.Touch, restHash{B: b, Hash: h})
		g.names("upload ", "", nil, h)
	}
	for _, loc := range c.ended {
		g.rest.Uploads = append(g.rest.Uploads, restUpload{B: b, Loc: loc})
	}
	for _, o := range c.Redact.Objects {
		g.rest.Redact = append(g.rest.Redact, restRedact{B: b, Hash: o.Hash, Size: int64(len(o.Data)), Data: o.Data})
	}
	for i, w := range c.Redact.Requests {
		g.rest.Redact = append(g.rest.Redact, restRedact{B: b, Request: w.ID, Data: rows[len(c.Requests)+i]})
	}
	for _, e := range c.Redact.Events {
		g.rest.Redact = append(g.rest.Redact, restRedact{B: b, Event: e.Pos, Data: e.Payload})
	}
	if len(c.Requests)+len(c.Counts)+len(c.Remove)+len(c.touched)+len(c.ended) > 0 || !c.Redact.Empty() {
		g.rare = true
	}
}

// object adds an object. Of those that occur in a group more than once, all but one are
// marked again; the unmarked one is a node if any is.
func (g *group) object(c *change, i int) {
	o := c.Objects[i]
	at := len(g.objectB)
	first, again := g.objectAt[o.Hash]
	for j := at - 1; again && j >= 0 && g.objectB[j] == g.n; j-- {
		if dag.Hash(g.objectHash[j]) == o.Hash { // twice in one batch
			g.objectKind[j] = max(g.objectKind[j], int32(o.Kind))
			if g.objectKind[j] > g.objectKind[first] {
				g.objectAgain[first], g.objectAgain[j] = true, false
				g.objectAt[o.Hash] = j
			}
			return
		}
	}
	switch {
	case !again:
		g.objectAt[o.Hash] = at
	case int32(o.Kind) > g.objectKind[first]:
		g.objectAgain[first], again = true, false
		g.objectAt[o.Hash] = at
	}
	loc, size, body := "", int64(len(o.Data)), c.bodies[i]
	if c.locs != nil && c.locs[i] != "" {
		loc, size, body = c.locs[i], c.sizes[i], nil
	} else if body == nil {
		body = []byte{}
	}
	g.objectB, g.objectHash = append(g.objectB, g.n), append(g.objectHash, o.Hash[:])
	g.objectKind, g.objectSize = append(g.objectKind, int32(o.Kind)), append(g.objectSize, size)
	g.objectBody, g.objectLoc = append(g.objectBody, body), append(g.objectLoc, loc)
	g.objectAgain = append(g.objectAgain, again)
}

// names has the server check what a row names, except for what it is known to have named before.
func (g *group) names(table, id string, had []dag.Hash, hs ...dag.Hash) {
	for i, h := range hs {
		if h.IsZero() || slices.Contains(had, h) || slices.Contains(hs[:i], h) {
			continue
		}
		if at, ok := g.objectAt[h]; ok && g.objectB[at] == g.n {
			continue // the batch brings it along
		}
		g.refB, g.refTable = append(g.refB, g.n), append(g.refTable, table)
		g.refRow, g.refHash = append(g.refRow, id), append(g.refHash, bytesOf(h))
	}
}

// round returns how often an id occurs in the last batch so far, plus one: changes to the
// same id are made one after the other.
func (g *group) round(bs []int32, ids []string, id string) int32 {
	round := int32(1)
	for i := len(bs) - 1; i >= 0 && bs[i] == g.n; i-- {
		if ids[i] == id {
			round++
		}
	}
	g.rounds = max(g.rounds, round)
	return round
}

func (g *group) threads(c *change, rows [][]byte) int {
	for i, x := range c.Threads {
		t := x.Row
		var from store.ThreadState
		var had []dag.Hash
		if x.From != nil {
			from = *x.From
			had = []dag.Hash{from.Head}
		}
		g.threadNth = append(g.threadNth, g.round(g.threadB, g.threadID, t.ID))
		g.threadB, g.threadSwap = append(g.threadB, g.n), append(g.threadSwap, x.From != nil)
		g.fromHead = append(g.fromHead, bytesOf(from.Head))
		g.fromStatus, g.fromWanted = append(g.fromStatus, string(from.Status)), append(g.fromWanted, string(from.Intent))
		g.threadID, g.threadTask, g.threadRoot = append(g.threadID, t.ID), append(g.threadTask, t.Task),
			append(g.threadRoot, t.Root)
		g.threadShort, g.threadKind = append(g.threadShort, t.Short), append(g.threadKind, string(t.Kind))
		g.threadWorkspace, g.threadBundle = append(g.threadWorkspace, t.Workspace), append(g.threadBundle, bytesOf(t.Bundle))
		g.threadStatus, g.threadWanted = append(g.threadStatus, string(t.Status)), append(g.threadWanted, string(t.Intent))
		g.threadHead = append(g.threadHead, bytesOf(t.Head))
		g.names("thread ", t.ID, had, t.Start, t.Head, t.Files)
		g.threadNames = append(g.threadNames, joined(t.Roots()))
		g.threadRow = append(g.threadRow, rows[i])
	}
	return len(c.Threads)
}

func (g *group) attempts(c *change, rows [][]byte) int {
	for i, x := range c.Attempts {
		a := x.Row
		g.names("attempt ", a.ID, nil, append([]dag.Hash{a.Prompt, a.Transcript, a.Stderr, a.Calls}, a.Pins...)...)
		g.attemptNth = append(g.attemptNth, g.round(g.attemptB, g.attemptID, a.ID))
		g.attemptB, g.attemptFrom = append(g.attemptB, g.n), append(g.attemptFrom, string(x.From))
		g.attemptID, g.attemptThread = append(g.attemptID, a.ID), append(g.attemptThread, a.Thread)
		g.attemptN, g.attemptOrigin = append(g.attemptN, int64(a.N)), append(g.attemptOrigin, bytesOf(a.From))
		g.attemptStatus = append(g.attemptStatus, string(a.Status))
		g.attemptNames = append(g.attemptNames, joined(a.Roots()))
		g.attemptRow = append(g.attemptRow, rows[i])
	}
	return len(c.Attempts)
}
