package verify

import (
	"context"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// proofs are what events say of rows.
type proofs struct {
	before int64 // the last position before the rows were read
	rows   map[string]*statement
	// whole has the tasks all of whose rows are in events: they began, or were imported, when events had proofs. So it
	// has "", for the registry, if the whole record did.
	whole map[string]bool
	// coming has the tasks whose import has begun. They have no rows before it ends.
	coming map[string]bool
}

// A statement is what the last event before the rows were read says of one, and what later ones say.
type statement struct {
	task  string // of the event
	pos   int64
	is    dag.Hash
	later []dag.Hash
}

// beginProofs is called before rows are read.
func (c *check) beginProofs(ctx context.Context) (proofs, error) {
	p := proofs{rows: map[string]*statement{}, whole: map[string]bool{}, coming: map[string]bool{}}
	last, err := c.cfg.Store.Events(ctx, 0, store.EventFilter{Newest: true, Limit: 1})
	if len(last) > 0 {
		p.before = last[0].Pos
	}
	return p, err
}

// read reads the events of a task, or all, after the rows were read.
func (p *proofs) read(ctx context.Context, s store.Journal, task string) error {
	return event.Each(ctx, s, store.EventFilter{Task: task}, new(int64), func(e store.Event) error {
		switch {
		case event.Is(e, event.ImportBegun{}):
			begun, _ := event.Read(e).(event.ImportBegun)
			p.coming[begun.Task] = true
		case event.Is(e, event.TaskImported{}):
			delete(p.coming, e.Task)
		}
		said := store.ReadProof(e.Proof)
		if _, all := said["thread "+e.Task]; all && (e.Seq == 1 || event.Is(e, event.TaskImported{})) {
			p.whole[e.Task] = true
		}
		for row, is := range said {
			if strings.HasPrefix(row, store.ProofEvent) || strings.HasPrefix(row, store.ProofObject) { // see checkLog, checkRedacted
				continue
			}
			switch was := p.rows[row]; {
			case was == nil || e.Pos <= p.before:
				p.rows[row] = &statement{task: e.Task, pos: e.Pos, is: is}
			default:
				was.later = append(was.later, is)
			}
		}
		return nil
	})
}

// checkProofs compares rows with what events say of them.
func (c *check) checkProofs(r rows) {
	p, there, tasks := r.proofs, map[string]bool{}, map[string]string{}
	compare := func(row, task string, is dag.Hash) {
		there[row] = true
		switch said := p.rows[row]; {
		case said == nil && p.whole[task]:
			c.wrong(dag.Hash{}, "%s is in no event", row)
		case said != nil && said.is != is && !slices.Contains(said.later, is):
			c.wrong(dag.Hash{}, "%s is not what event %d says", row, said.pos)
		}
	}
	for i := range r.threads {
		t := &r.threads[i]
		tasks[t.ID] = t.Task
		delete(p.coming, t.Task)
		compare("thread "+t.ID, t.Task, t.Proven())
	}
	for i := range r.attempts {
		a := &r.attempts[i]
		compare("attempt "+a.ID, tasks[a.Thread], a.Proven())
	}
	for i := range r.gates {
		g := &r.gates[i]
		compare("gate "+g.ID, g.Task, g.Proven())
	}
	for i := range r.requests {
		w := &r.requests[i]
		compare("request "+w.ID, w.Task, w.Proven())
	}
	for i := range r.flows {
		f := &r.flows[i]
		compare("flow "+f.Name, "", f.Proven())
	}
	if !r.all {
		return
	}
	for row, said := range p.rows {
		if !there[row] && !said.is.IsZero() && said.pos <= p.before && !p.coming[said.task] {
			c.absent(dag.Hash{}, "%s is missing, and event %d has it", row, said.pos)
		}
	}
}
