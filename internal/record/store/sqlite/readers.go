package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"zombiezen.com/go/sqlite"
)

// readers are the connections for reading. The most recently used one is used next, since its statements
// are compiled, and a new one is opened when all others are busy: most commands need one or two.
type readers struct {
	open    func() (*sqlite.Conn, error)
	slots   chan struct{} // one for each busy connection
	closing chan struct{}

	mu   sync.Mutex
	idle []*reader
	busy map[*reader]bool
}

// A reader is a connection and the means to interrupt it, which is replaced only once used: passing each context
// to SQLite would start a goroutine for each read.
type reader struct {
	*sqlite.Conn
	cut  *cut
	stop func() bool // detaches it from the context of the read
}

// A cut is a channel that can be closed more than once.
type cut struct {
	once sync.Once
	ch   chan struct{}
}

func (c *cut) close() { c.once.Do(func() { close(c.ch) }) }

func (c *reader) renew() {
	c.cut = &cut{ch: make(chan struct{})}
	c.SetInterrupt(c.cut.ch)
}

func newReaders(open func() (*sqlite.Conn, error)) *readers {
	return &readers{open: open, slots: make(chan struct{}, readerCount), closing: make(chan struct{}),
		busy: make(map[*reader]bool)}
}

// take returns a connection that ctx interrupts.
func (r *readers) take(ctx context.Context) (*reader, error) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.closing:
		return nil, errClosed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var c *reader
	if n := len(r.idle); n > 0 {
		c, r.idle = r.idle[n-1], r.idle[:n-1]
	} else {
		conn, err := r.open()
		if err != nil {
			<-r.slots
			return nil, err
		}
		c = &reader{Conn: conn}
		c.renew()
	}
	c.stop = context.AfterFunc(ctx, c.cut.close)
	r.busy[c] = true
	return c, nil
}

func (r *readers) put(c *reader) {
	if q := c.CheckReset(); q != "" {
		panic(fmt.Sprintf("a reader is handed back in the middle of %q", q))
	}
	if !c.stop() { // it was interrupted, or is about to be
		c.cut.close()
		c.renew()
	}
	r.mu.Lock()
	delete(r.busy, c)
	r.idle = append(r.idle, c)
	r.mu.Unlock()
	<-r.slots
}

// close interrupts running reads, waits for them and closes all connections.
func (r *readers) close() error {
	close(r.closing)
	r.mu.Lock()
	for c := range r.busy {
		c.cut.close()
	}
	r.mu.Unlock()
	for range readerCount {
		r.slots <- struct{}{} // never released
	}
	var errs []error
	for _, c := range r.idle {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
