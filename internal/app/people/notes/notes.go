// Package notes reads what people write into a task's shared/human-notes.md while it is driven.
//
// It takes the file and the gates of the task, and produces events: what was read, and answers to gates that
// ask for input.
//
// Laws:
//
//   - Each note is read once: the journal records how much of the file was read.
//   - Notes never approve anything: agents may be able to write them.
//   - Nothing about the file is fatal. What cannot be read is reported once.
//
// The package never writes the file and never moves a thread: the engine reads its findings from the journal.
package notes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// How human-notes.md is watched. A writer counts as done when the file has not changed for defaultQuiet, or
// after maxWait. Polling finds changes that the system does not report.
const (
	defaultQuiet = 300 * time.Millisecond
	maxWait      = 5 * time.Second
	pollInterval = 2 * time.Second
)

// Config configures what is read, and how.
type Config struct {
	Store    store.Journal
	Gates    *gate.Service
	Row      store.Thread     // the root of the task
	Now      func() time.Time // of events
	Debounce time.Duration    // read the file once it has not changed for this long; zero: 300 ms
	Poll     bool             // only poll for changes; otherwise the system also reports them
}

// A reader reads human-notes.md while a task is driven. It ignores errors of the store, which stop the drive
// elsewhere.
type reader struct {
	cfg    Config
	dir    taskdir.Dir
	pos    int64              // in the journal
	known  taskdir.NotesState // what was read
	seen   taskdir.Stamp
	more   bool   // there is more to read than one read takes
	warned string // the last warning

	answered bool // something read answered a gate
}

// Read reads new notes once the file no longer changes, and reports whether one answered a gate.
func Read(ctx context.Context, cfg Config) (answered bool) {
	r := newReader(cfg)
	r.readNew(ctx, false)
	return r.answered
}

func newReader(cfg Config) *reader {
	if cfg.Debounce <= 0 {
		cfg.Debounce = defaultQuiet
	}
	return &reader{cfg: cfg, dir: taskdir.At(cfg.Row.Workspace, cfg.Row.ID), known: taskdir.NewNotesState()}
}

// Watch reads what was written before the task was driven. Later changes are read in the background until stop
// is called.
func Watch(ctx context.Context, cfg Config) (stop func()) {
	r := newReader(cfg)
	ctx, cancel := context.WithCancel(ctx)
	r.readNew(ctx, true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.watch(ctx)
	}()
	return func() { cancel(); <-done }
}

// catchUp reads the journal's records of notes since the last call.
func (r *reader) catchUp(ctx context.Context) error {
	of := store.EventFilter{Task: r.cfg.Row.ID, Types: event.Types(event.NotesRead{})}
	err := event.Each(ctx, r.cfg.Store, of, &r.pos, func(ev store.Event) error {
		if n, ok := event.Read(ev).(event.NotesRead); ok {
			r.known = r.known.With(n)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read notes of task %s: %w", r.cfg.Row.ID, err)
	}
	return nil
}

// watch reads the file whenever it has changed.
func (r *reader) watch(ctx context.Context) {
	shared := filepath.Join(r.dir.Path(), "shared")
	var changes <-chan fsnotify.Event
	var failures <-chan error
	var watcher *fsnotify.Watcher
	if !r.cfg.Poll {
		watcher, _ = fsnotify.NewWatcher() // if there are too many watchers, polling has to suffice
	}
	if watcher != nil {
		// The kernel takes about 20 ms to release it, and no task should wait for that.
		defer func() { go watcher.Close() }()
		changes, failures = watcher.Events, watcher.Errors
		watcher.Add(shared)
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case ev := <-changes:
			if filepath.Base(ev.Name) != "human-notes.md" {
				continue
			}
		case <-failures:
			continue
		case <-tick.C:
			if watcher != nil {
				watcher.Add(shared) // the directory may have been replaced
			}
			if !r.more && r.dir.NotesStamp() == r.seen {
				continue
			}
		}
		r.readNew(ctx, false)
	}
}

// readNew reads new text in the file, once no other process is writing to it. On the first read, a file that
// has been quiet for long enough is read immediately.
func (r *reader) readNew(ctx context.Context, first bool) {
	stamp := r.dir.NotesStamp()
	data, err := r.dir.Notes()
	if err == nil && !r.unchanged(ctx, data) {
		if !first || stamp.Age(time.Now()) < r.cfg.Debounce {
			waitUntilQuiet(ctx, r.cfg.Debounce, r.dir.NotesStamp)
			if ctx.Err() != nil {
				return
			}
		}
		stamp = r.dir.NotesStamp()
		data, err = r.dir.Notes()
	}
	r.seen = stamp
	if err != nil {
		r.warn(ctx, err)
		return
	}
	r.ingest(context.WithoutCancel(ctx), data)
}

// waitUntilQuiet returns when stamp has stayed the same for the time quiet, after maxWait at
// the latest, or when ctx ends.
func waitUntilQuiet[S comparable](ctx context.Context, quiet time.Duration, stamp func() S) {
	tick := time.NewTicker(quiet)
	defer tick.Stop()
	last := stamp()
	for waited := time.Duration(0); waited < maxWait; waited += quiet {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := stamp()
		if now == last {
			return
		}
		last = now
	}
}

// unchanged reports whether nothing in data is new.
func (r *reader) unchanged(ctx context.Context, data []byte) bool {
	return r.catchUp(ctx) == nil && r.known.Added(data).Blank()
}

// ingest records what is new in data, once. An answer and the fact that it was read are one batch, so that a
// crash cannot leave one without the other.
func (r *reader) ingest(ctx context.Context, data []byte) {
	for range 9 {
		if r.catchUp(ctx) != nil {
			return
		}
		added := r.known.Added(data)
		open, closed, err := r.answerable(ctx)
		if err != nil {
			return
		}
		for _, part := range added.Sort(open, closed) {
			if err = r.record(ctx, part); err != nil {
				break
			}
		}
		if errors.Is(err, store.ErrConflict) {
			continue // another answer came first: the rest is for another gate, or a note
		}
		if err != nil {
			r.more = true // try again a little later
			return
		}
		if r.catchUp(ctx) == nil {
			r.known, r.more = added.Read(), added.More()
		}
		return
	}
}

// answerable returns the ids of the task's gates that notes may answer, and those of all others. See
// gate.Noted.
func (r *reader) answerable(ctx context.Context) (open, closed []string, err error) {
	gates, err := r.cfg.Gates.Gates(ctx, store.GateFilter{Task: r.cfg.Row.ID})
	for _, g := range gates {
		if g.State == store.GateOpen && gate.Noted(g) {
			open = append(open, g.ID)
		} else {
			closed = append(closed, g.ID)
		}
	}
	return open, closed, err
}

// record records that a part was read, and answers the gate that it is for.
func (r *reader) record(ctx context.Context, part taskdir.Part) error {
	var events []store.Event
	for _, reading := range part.Readings {
		events = append(events, event.New(r.cfg.Row, r.cfg.Now().UnixMilli(), reading))
	}
	if part.Gate == "" {
		return r.cfg.Store.Commit(ctx, store.Batch{Events: events})
	}
	_, err := r.cfg.Gates.Answer(ctx, part.Gate, gate.Answer{Text: part.Text, Via: store.ViaNotes,
		Beside: store.Batch{Events: events}})
	r.answered = r.answered || err == nil
	return err
}

// warn reports once that the file cannot be read.
func (r *reader) warn(ctx context.Context, why error) {
	if why.Error() == r.warned {
		return
	}
	r.warned = why.Error()
	ev := event.New(r.cfg.Row, r.cfg.Now().UnixMilli(), event.NotesRefused{Message: event.Text(why.Error())})
	if r.cfg.Store.Commit(context.WithoutCancel(ctx), store.Batch{Events: []store.Event{ev}}) != nil {
		r.warned = "" // it was not recorded
	}
}
