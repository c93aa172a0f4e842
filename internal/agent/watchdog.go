package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Why a Patience ended an attempt.
var (
	ErrTimeout = errors.New("timeout")
	ErrIdle    = errors.New("idle")
)

// Limits bound the time of an attempt. Zero: none.
type Limits struct {
	Timeout time.Duration // wall time
	Idle    time.Duration // time without output
}

// Stopped says what somebody did who was stopped because of ErrTimeout or ErrIdle.
func (l Limits) Stopped(why error) string {
	if errors.Is(why, ErrIdle) {
		return fmt.Sprintf("was stopped: it said nothing for %v (idle limit)", l.Idle)
	}
	return fmt.Sprintf("was stopped: it ran longer than its timeout of %v", l.Timeout)
}

// A Patience measures the time that an attempt takes and the time in which nothing is heard of it. The time in
// which a person is asked counts for neither, and silence while a tool runs is none. It may be used concurrently.
// Make one with NewPatience when the attempt begins.
type Patience struct {
	Limits
	began time.Time

	mu     sync.Mutex
	asked  int       // questions that are open
	tools  int       // tools that run
	heard  time.Time // when something last happened, or the last question was answered
	from   time.Time // when the first open question was asked
	paused time.Duration
}

// NewPatience returns the patience with an attempt that begins now.
func NewPatience(l Limits) *Patience {
	now := time.Now()
	return &Patience{Limits: l, began: now, heard: now}
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
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := p.Over(); err != nil {
				stop(err)
			}
		}
	}
}

// Over returns [ErrTimeout] or [ErrIdle] when one of the limits is reached, else nil.
func (p *Patience) Over() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.asked > 0:
	case p.Timeout > 0 && time.Since(p.began)-p.paused > p.Timeout:
		return ErrTimeout
	case p.tools == 0 && p.Idle > 0 && time.Since(p.heard) > p.Idle:
		return ErrIdle
	}
	return nil
}
