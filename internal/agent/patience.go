package agent

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Why a Patience ended an attempt.
var (
	ErrTimeout = errors.New("timeout")
	ErrIdle    = errors.New("idle")
)

// A Patience measures the time that an attempt takes and the time in which nothing is heard of it. The time in
// which a person is asked counts for neither, and silence while a tool runs is none. It may be used concurrently.
type Patience struct {
	Timeout, Idle time.Duration // zero: none

	mu     sync.Mutex
	asked  int       // questions that are open
	tools  int       // tools that run
	heard  time.Time // when something last happened, or the last question was answered
	from   time.Time // when the first open question was asked
	paused time.Duration
}

// Heard says that something happened.
func (p *Patience) Heard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = time.Now()
}

// Running says how many tools run: while there are any, silence does not count.
func (p *Patience) Running(tools int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tools = tools
}

// Asking says that a person is asked, until the function that it returns is called.
func (p *Patience) Asking() (answered func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == 0 {
		p.from = time.Now()
	}
	p.asked++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.asked--; p.asked == 0 {
			p.heard = time.Now()
			p.paused += p.heard.Sub(p.from)
		}
	}
}

// Watch calls stop with [ErrTimeout] or [ErrIdle] once one of the limits is reached. It returns when ctx ends.
func (p *Patience) Watch(ctx context.Context, stop func(error)) {
	began := time.Now()
	p.Heard()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			p.mu.Lock()
			open, worked, silent := p.asked > 0, now.Sub(began)-p.paused, now.Sub(p.heard)
			quiet := p.tools == 0
			p.mu.Unlock()
			switch {
			case open:
			case p.Timeout > 0 && worked > p.Timeout:
				stop(ErrTimeout)
			case quiet && p.Idle > 0 && silent > p.Idle:
				stop(ErrIdle)
			}
		}
	}
}
