package view

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// maxCounted bounds how many steps of a task are counted for its graph.
const maxCounted = 20_000

// States of nodes.
const (
	nodePending = "pending"
	nodeRunning = "running"
	nodeBlocked = "blocked"
	nodeDone    = "done"
	nodeFailed  = "failed"
)

var nodeStates = map[store.Status]string{
	store.Pending: nodePending, store.Running: nodeRunning, store.Blocked: nodeBlocked, store.Completed: nodeDone,
	store.Failed:    nodeFailed,
	store.Cancelled: nodeFailed, Interrupted: nodeBlocked,
}

// TaskGraph is the graph of the flow that the thread row runs, with how often each node was
// done there and in its paths, and of a role that plans the actions of its newest plan.
func (b *Reader) TaskGraph(ctx context.Context, row store.Thread) (*Graph, error) {
	bundle, err := b.Nodes.Bundle(ctx, row.Bundle)
	if err != nil {
		return nil, err
	}
	def, err := definition(*bundle, row.Flow)
	if err != nil {
		return nil, err
	}
	kin, err := thread.ReadKin(ctx, b.Store, row)
	if err != nil {
		return nil, err
	}
	m := marking{b: b, stands: b.statuses(), def: def, kin: kin, Graph: FlowGraph(def), seen: map[dag.Hash]bool{},
		plans: map[string]found{}}
	if m.gates, err = b.Store.Gates(ctx, store.GateFilter{Task: row.Task, State: store.GateOpen}); err != nil {
		return nil, err
	}
	m.Task = row.Task
	m.node(flow.Start).State, m.node(flow.Start).Visits, m.node(flow.Start).Thread = nodeDone, 1, row.ID
	for i, e := range m.Edges {
		if e.From == flow.Start && e.Label == "new" && row.Status != store.Pending {
			m.Edges[i].Taken = 1
		}
	}
	for _, t := range m.threads(row) {
		if err := m.steps(ctx, t); err != nil {
			return nil, err
		}
	}
	for _, role := range sortedNames(m.plans) {
		m.planned(ctx, role, m.plans[role])
	}
	for _, t := range m.threads(row) {
		if err := m.now(ctx, t); err != nil {
			return nil, err
		}
	}
	m.forks(ctx, row)
	return m.Graph, nil
}

// A marking marks in a graph where a task was and is.
type marking struct {
	*Graph
	b      *Reader
	stands statuses
	def    *flow.Definition
	kin    thread.Kin
	gates  []store.Gate      // of the task, open
	seen   map[dag.Hash]bool // steps that were counted: paths share those before their fork
	plans  map[string]found  // the newest plan of each role
}

// A found plan is one that a step of a thread decided.
type found struct {
	plan *flow.Plan
	step dag.Hash
	in   store.Thread
	at   int64
	join bool // it was joined
}

func (m *marking) node(id string) *GraphNode {
	if i := slices.IndexFunc(m.Nodes, func(n GraphNode) bool { return n.ID == id }); i >= 0 {
		return &m.Nodes[i]
	}
	return &GraphNode{} // what nobody draws
}

// threads are row and the paths of its forks, at any depth: those that run by its graph.
func (m *marking) threads(row store.Thread) []store.Thread {
	out := []store.Thread{row}
	known := map[string]bool{row.ID: true}
	for i := 0; i < len(out); i++ {
		for _, t := range m.kin.Below(out[i].ID) {
			if t.Kind == store.KindPath && t.Path != nil && t.Path.Join != thread.RoleJoin && !known[t.ID] {
				known[t.ID] = true
				out = append(out, t)
			}
		}
	}
	return out
}

// steps counts the steps of a thread that were not counted yet.
func (m *marking) steps(ctx context.Context, t store.Thread) error {
	joined := map[dag.Hash]bool{} // plans whose join stands behind them
	for s, err := range m.b.Nodes.Walk(ctx, t.Head) {
		if err != nil {
			return err
		}
		if m.seen[s.Hash] {
			return nil // and so is all before it
		}
		if len(m.seen) == maxCounted {
			m.Cut = true
			return nil
		}
		m.seen[s.Hash] = true
		st := s.State
		if st.Role == thread.RoleJoin {
			joined[st.Fork] = true
			continue
		}
		var meta map[string]any
		json.Unmarshal(st.Meta, &meta) // stored meta is an object
		id := st.Role
		if id == thread.RoleEnd {
			id = flow.EndNode
		}
		n := m.node(id)
		n.Visits++
		if n.Visits == 1 {
			n.State, n.Step, n.Thread = nodeDone, s.Hash, t.ID
			if code, ok := meta["returnCode"].(float64); id == flow.EndNode && ok && code != 0 {
				n.State = nodeFailed
			}
		}
		status, _ := meta["$status"].(string)
		for i, e := range m.Edges {
			if e.From == id && e.Kind == EdgeRoute && (e.Label == status || strings.HasPrefix(e.Label, status+" (code ")) {
				m.Edges[i].Taken++
			}
		}
		if old, ok := m.plans[id]; m.def.Roles[id].Plan && status == flow.Planned && (!ok || old.at < st.Timestamp) {
			if p, err := m.def.RecordedPlan(meta); err == nil {
				m.plans[id] = found{p, s.Hash, t, st.Timestamp, joined[s.Hash]}
			}
		}
	}
	return nil
}

// planned draws the newest plan of a role.
func (m *marking) planned(ctx context.Context, role string, f found) {
	m.withPlan(role, f.plan)
	begun := false
	for _, t := range m.kin.Below(f.in.ID) { // a later try at an action comes after the one before
		if t.Path == nil || t.Path.Fork != f.step || t.Path.Join != thread.RoleJoin {
			continue
		}
		begun = true
		n := m.node(role + "/" + t.Path.ID)
		n.Thread, n.Step = t.ID, dag.Hash{}
		n.State = nodeStates[m.stands.of(ctx, t)]
		n.Visits++
	}
	join := m.node(role + "/" + flow.JoinRole)
	switch {
	case f.join:
		join.State, join.Visits = nodeDone, 1
	case begun:
		join.State = nodeRunning
	}
}

// now marks where a thread is.
func (m *marking) now(ctx context.Context, t store.Thread) error {
	for _, c := range m.kin.Below(t.ID) {
		if c.Kind == store.KindCall && !c.Ended() {
			for i, n := range m.Nodes {
				if n.Kind == NodeCall && n.Flow == c.Flow {
					m.Nodes[i].State, m.Nodes[i].Thread, m.Nodes[i].Step = nodeStates[m.stands.of(ctx, c)], c.ID, dag.Hash{}
				}
			}
		}
	}
	if t.Ended() {
		return nil
	}
	trying, err := m.b.trying(ctx, t)
	if err != nil {
		return err
	}
	for _, at := range trying {
		n := m.node(at.Role)
		n.Thread, n.Step, n.State = t.ID, dag.Hash{}, nodeRunning
		if at.Status != store.AttemptRunning {
			n.State = nodeFailed
		}
		if t.Status == store.Blocked {
			n.State = nodeBlocked
		}
	}
	for _, g := range m.gates {
		if g.Thread == t.ID {
			n := m.node(g.Node)
			n.State, n.Thread, n.Step = nodeBlocked, t.ID, dag.Hash{}
		}
	}
	return nil
}

// forks marks the forks that paths began at, and the joins that wait for them.
func (m *marking) forks(ctx context.Context, row store.Thread) {
	type place struct {
		parent string
		fork   dag.Hash
		name   string
	}
	counted := map[place]bool{}
	for _, t := range m.threads(row)[1:] {
		name, _, ok := m.def.Branch(t.Path.ID)
		if !ok {
			continue
		}
		n := m.node(name)
		if at := (place{t.Parent.Thread, t.Path.Fork, name}); !counted[at] {
			counted[at] = true
			n.Visits++
			n.State = nodeDone
		}
		for i, e := range m.Edges {
			if e.From == name && e.Label == t.Path.ID {
				m.Edges[i].Taken++
			}
		}
		n.Thread = t.Parent.Thread
		if !t.Ended() {
			if j := m.node(m.def.Forks[name].Join); j.State == "" || j.State == nodeDone {
				j.State = nodeRunning
			}
			if m.stands.of(ctx, t) == store.Running {
				n.State = nodeRunning
			}
		}
	}
}
