package sqlite

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A waiter looks for events of other processes every pollEvery, or every quietEvery while the system
// reports no write to the log, as it would report the next one.
const (
	pollEvery  = 50 * time.Millisecond
	quietEvery = 2 * time.Second
)

// A logWatch records when the log was last written, by any process.
type logWatch struct {
	once    sync.Once
	watched atomic.Bool
	written atomic.Int64 // Unix time in milliseconds
}

// patience is how long a waiter may wait before it looks again. A write becomes readable only after its
// sync, so waiters look often for a while after it.
func (s *Store) patience() time.Duration {
	s.log.once.Do(s.watchLog)
	if s.log.watched.Load() && !s.recentlyWritten() {
		return quietEvery
	}
	return pollEvery
}

func (s *Store) recentlyWritten() bool {
	return time.Since(time.UnixMilli(s.log.written.Load())) < quietEvery
}

// watchLog wakes waiters at the first write after a quiet period, where the system can report it. It watches the log
// alone: on some systems watching opens the file, and closing the database would drop SQLite's locks on it.
func (s *Store) watchLog() {
	s.log.written.Store(time.Now().UnixMilli())
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return
	}
	if err := w.Add(s.database() + "-wal"); err != nil {
		w.Close()
		return
	}
	s.log.watched.Store(true)
	go func() {
		// The kernel takes some 20 ms to release the watch; the store need not wait for it.
		defer func() { go w.Close() }()
		for {
			select {
			case <-s.closing:
				return
			case <-w.Events:
			case <-w.Errors: // events were lost
			}
			recent := s.recentlyWritten()
			s.log.written.Store(time.Now().UnixMilli())
			if !recent {
				s.news.Wake()
			}
			select { // many writes are one piece of news
			case <-s.closing:
				return
			case <-time.After(pollEvery):
			}
		}
	}()
}
