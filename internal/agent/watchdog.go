package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Why a Watchdog ended an attempt.
var (
	ErrTimeout = errors.New("timeout")
	ErrIdle    = errors.New("idle")
)

// Limits are the time limits of an attempt. Zero means none.
type Limits struct {
	Timeout time.Duration // wall time
	Idle    time.Duration // time without output
}

// Explain describes an agent that was stopped with ErrTimeout or ErrIdle: "was stopped: …".
func (l Limits) Explain(why error) string {
	if errors.Is(why, ErrIdle) {
		return fmt.Sprintf("was stopped: it said nothing for %v (idle limit)", l.Idle)
	}
	return fmt.Sprintf("was stopped: it ran longer than its timeout of %v", l.Timeout)
}

// A Watchdog measures how long an attempt takes and how long it has been idle. Neither clock runs while a person is
// asked, and the idle clock does not run while a tool does. It may be used concurrently. Create one with NewWatchdog
// when the attempt begins.
type Watchdog struct {
	Limits
	began time.Time

	mu         sync.Mutex
	questions  int       // open ones
	tools      int       // running ones
	lastActive time.Time // when something last happened or a question was answered
	from       time.Time // when the first open question was asked
	paused     time.Duration
}

// NewWatchdog returns the watchdog of an attempt that begins now.
func NewWatchdog(l Limits) *Watchdog {
	now := time.Now()
	return &Watchdog{Limits: l, began: now, lastActive: now}
}

// Active resets the idle clock.
func (p *Watchdog) Active() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastActive = time.Now()
}

// SetTools sets the number of running tools. While there are any, the idle clock does not run.
func (p *Watchdog) SetTools(tools int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tools = tools
}

// Pause stops both clocks while a person is asked, until the function that it returns is called.
func (p *Watchdog) Pause() (answered func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.questions == 0 {
		p.from = time.Now()
	}
	p.questions++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.questions--; p.questions == 0 {
			p.lastActive = time.Now()
			p.paused += p.lastActive.Sub(p.from)
		}
	}
}

// Watch calls stop with [ErrTimeout] or [ErrIdle] once one of the limits is reached. It returns when ctx ends.
func (p *Watchdog) Watch(ctx context.Context, stop func(error)) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := p.Expired(); err != nil {
				stop(err)
			}
		}
	}
}

// Expired returns [ErrTimeout] or [ErrIdle] if one of the limits is reached, otherwise nil.
func (p *Watchdog) Expired() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.questions > 0:
	case p.Timeout > 0 && time.Since(p.began)-p.paused > p.Timeout:
		return ErrTimeout
	case p.tools == 0 && p.Idle > 0 && time.Since(p.lastActive) > p.Idle:
		return ErrIdle
	}
	return nil
}
