package sqlite

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A waiter looks for events of other processes every pollEvery, and every quietEvery while the system
// reports no write to the log: it would tell of the next one.
const (
	pollEvery  = 50 * time.Millisecond
	quietEvery = 2 * time.Second
)

// A logWatch knows when the log was last written, by whatever process.
type logWatch struct {
	once    sync.Once
	watched atomic.Bool
	written atomic.Int64 // Unix time in milliseconds
}

// patience is how long a waiter may wait before it looks again. What was written can be read only after
// it is synced, so a write is followed by looks for a while.
func (s *Store) patience() time.Duration {
	s.log.once.Do(s.watchLog)
	if s.log.watched.Load() && !s.writtenOfLate() {
		return quietEvery
	}
	return pollEvery
}

func (s *Store) writtenOfLate() bool {
	return time.Since(time.UnixMilli(s.log.written.Load())) < quietEvery
}

// watchLog has waiters woken when somebody writes after a while, where the system can tell. It watches the log alone:
// on some systems that opens what is watched, and to close the database would drop SQLite's locks on it.
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
		// The kernel takes some 20 ms to let go of it, for which nobody has to wait.
		defer func() { go w.Close() }()
		for {
			select {
			case <-s.closing:
				return
			case <-w.Events:
			case <-w.Errors: // events were lost
			}
			late := s.writtenOfLate()
			s.log.written.Store(time.Now().UnixMilli())
			if !late {
				s.news.wake()
			}
			select { // many writes are one piece of news
			case <-s.closing:
				return
			case <-time.After(pollEvery):
			}
		}
	}()
}
