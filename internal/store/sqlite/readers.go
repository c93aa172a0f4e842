package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"zombiezen.com/go/sqlite"
)

// readers are the connections that read. The one that was used last is used next, since it has compiled
// its statements, and one is opened when all others are at work: most commands need one or two.
type readers struct {
	open    func() (*sqlite.Conn, error)
	slots   chan struct{} // one for each that is at work
	closing chan struct{}

	mu   sync.Mutex
	idle []*sqlite.Conn
	busy map[*sqlite.Conn]context.CancelFunc
}

func newReaders(open func() (*sqlite.Conn, error)) *readers {
	return &readers{open: open, slots: make(chan struct{}, readerCount), closing: make(chan struct{}),
		busy: make(map[*sqlite.Conn]context.CancelFunc)}
}

// take returns a connection that ctx interrupts.
func (r *readers) take(ctx context.Context) (*sqlite.Conn, error) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.closing:
		return nil, errClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	var c *sqlite.Conn
	if n := len(r.idle); n > 0 {
		c, r.idle = r.idle[n-1], r.idle[:n-1]
	} else {
		var err error
		if c, err = r.open(); err != nil {
			cancel()
			<-r.slots
			return nil, err
		}
	}
	c.SetInterrupt(ctx.Done())
	r.busy[c] = cancel
	return c, nil
}

func (r *readers) put(c *sqlite.Conn) {
	if q := c.CheckReset(); q != "" {
		panic(fmt.Sprintf("a reader is handed back in the middle of %q", q))
	}
	c.SetInterrupt(nil)
	r.mu.Lock()
	r.busy[c]()
	delete(r.busy, c)
	r.idle = append(r.idle, c)
	r.mu.Unlock()
	<-r.slots
}

// close interrupts what is read, waits for it and closes all connections.
func (r *readers) close() error {
	close(r.closing)
	r.mu.Lock()
	for _, cancel := range r.busy {
		cancel()
	}
	r.mu.Unlock()
	for range readerCount {
		r.slots <- struct{}{} // for good
	}
	var errs []error
	for _, c := range r.idle {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
