package model

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Why an attempt was stopped.
var (
	errTimeout = errors.New("timeout")
	errIdle    = errors.New("idle")
)

// maxSilence is how long a model's server may be silent in the middle of a request, where nothing else is said.
const maxSilence = 15 * time.Minute

// A clock ends an attempt that takes too long, or in which nothing happens for too long. While it is stopped no
// time passes.
type clock struct {
	timeout, idle time.Duration
	end           context.CancelCauseFunc

	mu     sync.Mutex
	worked time.Duration // up to since
	quiet  time.Duration // up to since
	since  time.Time     // zero: it is stopped
	timer  *time.Timer
}

// start lets time pass.
func (c *clock) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = time.Now()
	c.set()
}

// stop lets no time pass until start, or ever again.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pass()
	c.since = time.Time{}
	if c.timer != nil {
		c.timer.Stop()
	}
}

// touch says that something happened.
func (c *clock) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pass()
	c.quiet = 0
}

// pass adds the time up to now.
func (c *clock) pass() {
	if now := time.Now(); !c.since.IsZero() {
		gone := now.Sub(c.since)
		c.worked, c.quiet, c.since = c.worked+gone, c.quiet+gone, now
	}
}

// set sets the timer for what comes first.
func (c *clock) set() {
	next := time.Duration(-1)
	for _, left := range []struct{ limit, used time.Duration }{{c.timeout, c.worked}, {c.idle, c.quiet}} {
		if d := max(0, left.limit-left.used); left.limit > 0 && (next < 0 || d < next) {
			next = d
		}
	}
	if next >= 0 {
		c.timer = time.AfterFunc(next, c.check)
	}
}

func (c *clock) check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return
	}
	c.pass()
	switch {
	case c.timeout > 0 && c.worked >= c.timeout:
		c.end(errTimeout)
	case c.idle > 0 && c.quiet >= c.idle:
		c.end(errIdle)
	default:
		c.set()
	}
}
