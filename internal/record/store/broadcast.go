package store

import "sync"

// A Broadcast wakes everyone in this process who waits for events. The zero Broadcast is ready to use.
type Broadcast struct {
	mu sync.Mutex
	ch chan struct{} // what Next has returned since the last Wake, nil if it was not called
}

// Wake closes the channel that Next last returned.
func (b *Broadcast) Wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

// Next returns a channel that the next call of Wake closes.
func (b *Broadcast) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}
