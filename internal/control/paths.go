package control

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/store"
)

// A going path is one that a goroutine drives.
type going struct {
	cancel context.CancelCauseFunc
	still  bool // it is blocked, and waits for an answer
	ends   bool // it was told to stop
	woken  bool // it was told to stop waiting, and has not reported since
}

// A report is what a path's goroutine says to the one that waits at the join. It brings a
// count in the workload with it, which is the receiver's from then on.
type report struct {
	id    string
	row   store.Thread // when done
	still bool         // it is blocked, and waits for an answer; else it goes on, or is done
	done  bool         // the goroutine has ended
	err   error
}

// paths is the wait of one thread for its paths: the goroutine that owns the
// thread owns this too, and hears of the paths through reports.
type paths struct {
	*drive
	ctx     context.Context // of the paths
	at      engine.Stand
	fork    *engine.Fork
	late    bool
	going   map[string]*going       // by thread
	stopped map[string]store.Thread // blocked for good, by thread
	reports chan report
	settle  context.Context // ends when nobody's answer is waited for any more
	again   bool            // a path has ended without a report
	err     error
}

// fork drives the paths of a fork side by side, or one after the other, until the
// join is decided and every path has ended; then it commits the join.
func (d *drive) fork(ctx context.Context, at engine.Stand) (store.Thread, error) {
	settle, settled := context.WithCancel(ctx)
	defer settled()
	p := &paths{
		drive: d, ctx: ctx, at: at, fork: at.Fork, going: map[string]*going{}, stopped: map[string]store.Thread{},
		reports: make(chan report), settle: settle,
	}
	var clock <-chan time.Time
	if t := time.Duration(p.fork.Timeout); t > 0 {
		left := time.UnixMilli(p.fork.Since).Add(t).Sub(d.cfg.Now())
		p.late = left <= 0
		timer := time.NewTimer(max(left, 0))
		defer timer.Stop()
		clock = timer.C
	}
	decided := p.resolve()
	for {
		if p.err == nil && ctx.Err() == nil {
			p.start()
		}
		if p.again && p.err == nil {
			p.again = false
			decided = p.resolve()
			continue
		}
		if len(p.going) == 0 {
			break
		}
		if p.quiet() {
			settled() // those that wait for an answer stop waiting
			for _, g := range p.going {
				g.woken = true
			}
		}
		// Waiting for paths is no work, but for those that were told to stop: each reports soon.
		rests := !p.stopping()
		if rests {
			d.work.rest()
		}
		select {
		case r := <-p.reports:
			p.hear(r)
			if !rests {
				d.work.rest() // one count is enough
			}
		case <-clock:
			p.late = true
			if rests {
				d.work.add(1)
			}
		}
		if p.err == nil && ctx.Err() == nil {
			decided = p.resolve()
		}
		if p.err != nil {
			p.stop(engine.ErrInterrupted)
			settled()
		}
	}
	switch {
	case p.err != nil:
		return at.Thread, p.err
	case interrupted(ctx):
		return at.Thread, engine.ErrInterrupted
	case ctx.Err() != nil:
		return at.Thread, nil // thread cancels what is left
	case !decided || p.open():
		return d.engine.Block(ctx, at.ID, at.Head, below(p.blocked()...))
	}
	if row, done, err := p.merge(ctx); err != nil || !done {
		return row, err
	}
	next, err := d.engine.Join(ctx, at.ID, at.Head)
	if err == nil && next.Head != at.Head {
		err = d.tidy(ctx, p.fork)
	}
	return next.Thread, err
}

// start sets off every path that may go on now.
func (p *paths) start() {
	for _, row := range p.fork.Paths {
		if row.Ended() {
			continue
		}
		if !p.may(row) {
			continue
		}
		_, stopped := p.stopped[row.ID]
		if p.going[row.ID] == nil && !stopped {
			p.run(row.ID)
		}
		if p.fork.Serial {
			return // the next one when this one has ended
		}
	}
}

// may tells whether what a path depends on has completed. What can never begin is
// cancelled.
func (p *paths) may(row store.Thread) bool {
	for _, dep := range p.fork.After[row.Path.ID] {
		i := slices.IndexFunc(p.fork.Paths, func(t store.Thread) bool { return t.Path.ID == dep })
		switch {
		case p.fork.Paths[i].Status == store.Completed:
		case !p.fork.Paths[i].Ended():
			return false
		default:
			if _, err := p.drive.cancel(p.ctx, row.ID); err != nil && p.err == nil {
				p.err = err
			}
			p.again = true
			return false
		}
	}
	return true
}

func (p *paths) run(id string) {
	ctx, cancel := context.WithCancelCause(p.ctx)
	p.going[id] = &going{cancel: cancel}
	p.work.add(1)
	go func() {
		defer cancel(nil)
		for {
			row, err := p.thread(ctx, id)
			if err != nil || row.Status != store.Blocked {
				p.reports <- report{id: id, row: row, done: true, err: err}
				return
			}
			p.reports <- report{id: id, still: true}
			waiting, stop := context.WithCancel(ctx)
			after := context.AfterFunc(p.settle, stop)
			answered, err := p.answered(waiting, id)
			after()
			stop()
			p.work.add(1)
			if err != nil || !answered && (ctx.Err() == nil || interrupted(ctx)) {
				p.reports <- report{id: id, row: row, done: true, err: err}
				return
			}
			p.work.add(1) // for the report
			p.reports <- report{id: id}
		}
	}()
}

// hear takes in what a path's goroutine says.
func (p *paths) hear(r report) {
	switch {
	case r.done:
		delete(p.going, r.id)
		if r.err != nil && !errors.Is(r.err, engine.ErrInterrupted) && p.err == nil {
			p.err = r.err
		}
		if r.err == nil && !r.row.Ended() {
			p.stopped[r.id] = r.row
		}
	default:
		p.going[r.id].still, p.going[r.id].woken = r.still, false
	}
}

// resolve looks whether the join is decided, and stops the paths that lost.
func (p *paths) resolve() bool {
	f, err := p.engine.Resolve(p.ctx, p.at.ID, p.at.Head, p.late)
	if err != nil {
		p.err = errors.Join(p.err, err)
		return false
	}
	p.fork = f
	if f.Decision == nil {
		return false
	}
	for _, row := range f.Paths {
		if row.Ended() || !p.late && !slices.Contains(f.Cancel, row.ID) {
			continue
		}
		if g := p.going[row.ID]; g != nil {
			g.stop(errCancelled)
			continue
		}
		if _, err := p.drive.cancel(p.ctx, row.ID); err != nil {
			p.err = errors.Join(p.err, err)
			return false
		}
		delete(p.stopped, row.ID)
	}
	if p.fork, err = p.engine.Resolve(p.ctx, p.at.ID, p.at.Head, p.late); err != nil {
		p.err = errors.Join(p.err, err)
		return false
	}
	return true
}

func (p *paths) stop(cause error) {
	for _, g := range p.going {
		g.stop(cause)
	}
}

func (g *going) stop(cause error) {
	g.cancel(cause)
	g.ends = true
}

// stopping reports whether a path that was told to stop has still to report.
func (p *paths) stopping() bool {
	for _, g := range p.going {
		if g.ends || g.woken {
			return true
		}
	}
	return false
}

// quiet tells that every path waits for an answer, and nobody waits for answers.
func (p *paths) quiet() bool {
	if p.resume.Wait {
		return false
	}
	for _, g := range p.going {
		if !g.still {
			return false
		}
	}
	return true
}

// open tells whether a path has not ended.
func (p *paths) open() bool {
	return slices.ContainsFunc(p.fork.Paths, func(row store.Thread) bool { return !row.Ended() })
}

// blocked returns the paths that cannot go on.
func (p *paths) blocked() []store.Thread {
	var rows []store.Thread
	for _, row := range p.fork.Paths {
		if now, ok := p.stopped[row.ID]; ok {
			rows = append(rows, now)
		}
	}
	return rows
}
