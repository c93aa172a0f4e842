package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Quiet returns a handler for the log of a worker. While the record is unavailable, everything that needs it
// complains, some of it every second: instead one line reports that, and one that it is back, with how many were
// suppressed. there returns nil if the record answers; it is called after a complaint, until ctx ends.
func Quiet(ctx context.Context, to slog.Handler, there func(context.Context) error) slog.Handler {
	return quiet{to, &outage{ctx: ctx, to: to, there: there}}
}

const (
	answerTime  = time.Second     // within which the record must answer
	answerAgain = time.Second     // before it is asked again
	aftermath   = 2 * time.Second // during which calls begun before it was back may still fail
)

type quiet struct {
	slog.Handler
	*outage
}

// An outage is the known state of the record.
type outage struct {
	ctx   context.Context
	to    slog.Handler
	there func(context.Context) error

	mu         sync.Mutex
	asking     bool
	away       bool
	back       time.Time
	held       []complaint // until the record has answered, or failed to
	suppressed int         // complaints that this outage has suppressed
}

type complaint struct {
	to slog.Handler
	slog.Record
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quiet{q.Handler.WithAttrs(attrs), q.outage}
}

func (q quiet) WithGroup(name string) slog.Handler {
	return quiet{q.Handler.WithGroup(name), q.outage}
}

// Handle passes r on, unless it is a complaint during an outage or shortly after it, which the outage may have caused.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || q.ctx.Err() != nil {
		return q.Handler.Handle(ctx, r)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.away || time.Since(q.back) < aftermath {
		q.suppressed++
		return nil
	}
	q.held = append(q.held, complaint{q.Handler, r.Clone()})
	if !q.asking {
		q.asking = true
		go q.ask(r.Time)
	}
	return nil
}

// ask finds out whether the record is unavailable, and waits until it is back.
func (o *outage) ask(since time.Time) {
	err := o.answers()
	o.mu.Lock()
	defer o.mu.Unlock()
	held := o.held
	if o.held = nil; err == nil || o.ctx.Err() != nil {
		o.asking = false
		for _, c := range held {
			c.to.Handle(o.ctx, c.Record)
		}
		return
	}
	o.away, o.suppressed = true, len(held)
	o.mu.Unlock()
	o.say("record is away", slog.Any("error", err))
	for err != nil && o.ctx.Err() == nil {
		select {
		case <-o.ctx.Done():
		case <-time.After(answerAgain):
			err = o.answers()
		}
	}
	o.mu.Lock()
	if err == nil {
		after := time.Since(since).Round(time.Second)
		o.say("record is back", slog.Duration("after", after), slog.Int("suppressed", o.suppressed))
	}
	o.asking, o.away, o.back = false, false, time.Now()
}

func (o *outage) answers() error {
	ctx, cancel := context.WithTimeout(o.ctx, answerTime)
	defer cancel()
	return o.there(ctx)
}

func (o *outage) say(what string, attrs ...slog.Attr) {
	r := slog.NewRecord(time.Now(), slog.LevelWarn, what, 0)
	r.AddAttrs(attrs...)
	o.to.Handle(o.ctx, r)
}
