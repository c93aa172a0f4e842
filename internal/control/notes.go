package control

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/task"
)

// How human-notes.md is watched. Whoever writes is done when the file has not changed
// for a while, and is not waited for for ever. What the system does not tell of is
// found out by looking.
const (
	notesStill    = 300 * time.Millisecond
	notesPatience = 5 * time.Second
	notesLook     = 2 * time.Second
)

// toldNotes bounds what a prompt repeats of notes, in bytes: the newest are told.
const toldNotes = 64 << 10

// A notebook remembers what the journals of tasks say of notes, so that each is read
// once. Its zero value is ready.
type notebook struct {
	mu    sync.Mutex
	tasks map[string]*noted
}

// noted is what the journal of a task says of notes.
type noted struct {
	mu    sync.Mutex
	pos   int64
	known task.Known
	notes []note           // oldest first
	began map[string]begun // by attempt
	part  string           // of a note that goes on in the next event
}

// A note is a text for later prompts.
type note struct {
	pos, ts int64
	text    string
}

// begun is when a prompt was made.
type begun struct{ pos, ts int64 }

func (b *notebook) of(id string) *noted {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tasks == nil {
		b.tasks = make(map[string]*noted)
	}
	if b.tasks[id] == nil {
		b.tasks[id] = &noted{known: task.Unread(), began: make(map[string]begun)}
	}
	return b.tasks[id]
}

func (b *notebook) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.tasks, id)
}

// notesPage is how many events are read from the store at a time.
const notesPage = 1000

// upTo takes in what has happened since. The caller holds n.mu.
func (n *noted) upTo(ctx context.Context, journal store.Journal, id string) error {
	for {
		events, err := journal.Events(ctx, n.pos, store.EventFilter{Task: id, Limit: notesPage})
		if err != nil {
			return fmt.Errorf("read notes of task %s: %w", id, err)
		}
		for _, ev := range events {
			n.pos = ev.Pos
			switch r := event.Read(ev).(type) {
			case event.AttemptStarted:
				n.began[ev.Attempt] = begun{ev.Pos, ev.TS}
			case event.NotesRead:
				n.known = n.known.Hear(r)
				if n.part += r.Text; r.More {
					continue
				}
				if r.Gate == "" {
					n.notes = append(n.notes, note{ev.Pos, ev.TS, n.part})
				}
				n.part = ""
			}
		}
		if len(events) < notesPage {
			return nil
		}
	}
}

// noteMargin is how long a note may have been on its way into the journal when a
// prompt was made. Told twice is better than never.
const noteMargin = 1000

// noted returns the notes of a task for a prompt. after is the attempt by which the
// earlier ones were told, or "".
func (c *Controller) noted(ctx context.Context, row store.Thread, after string) ([]string, error) {
	n := c.notes.of(row.Task)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.upTo(ctx, c.cfg.Store, row.Task); err != nil {
		return nil, err
	}
	at, known := n.began[after]
	var out []string
	size, left := 0, 0
	for _, one := range slices.Backward(n.notes) {
		if known && one.pos < at.pos && one.ts < at.ts-noteMargin {
			break
		}
		if size += len(one.text); size > toldNotes && len(out) > 0 {
			left++
			continue
		}
		out = append(out, told(one.text))
	}
	if left > 0 {
		out = append(out, fmt.Sprintf("%d earlier notes are left out here; they stand in shared/human-notes.md.", left))
	}
	slices.Reverse(out)
	return out, nil
}

// told quotes a note: it cannot pass for a part of the prompt.
func told(text string) string {
	return "From the notes on this task (shared/human-notes.md):\n> " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n> ")
}

// attached returns what the agents of a task are handed.
func attached(row store.Thread) []engine.Attachment {
	tree := row.Tree
	if tree == "" {
		tree = row.Workspace
	}
	var out []engine.Attachment
	for _, a := range task.At(row.Workspace, row.Task).Attachments(tree) {
		out = append(out, engine.Attachment(a))
	}
	return out
}

// A notesReader reads human-notes.md while a task is driven. Nothing about the file
// is fatal, and what the store refuses stops the drive elsewhere.
type notesReader struct {
	*drive
	row    store.Thread
	dir    task.Dir
	seen   task.Stamp
	more   bool   // there was more than is read at once
	warned string // what was told last
}

// readNotes reads what was written while nobody drove the task, and then what is
// written, until the function that it returns is called.
func (d *drive) readNotes(ctx context.Context) (stop func()) {
	row, err := d.cfg.Store.Thread(ctx, d.task)
	if err != nil {
		return func() {}
	}
	r := &notesReader{drive: d, row: row, dir: task.At(row.Workspace, row.ID)}
	ctx, cancel := context.WithCancel(ctx)
	r.look(ctx, true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.watch(ctx)
	}()
	return func() { cancel(); <-done; d.notes.forget(d.task) }
}

// watch reads the file whenever it has changed.
func (r *notesReader) watch(ctx context.Context) {
	shared := filepath.Join(r.dir.Path(), "shared")
	var changes <-chan fsnotify.Event
	var failures <-chan error
	var watcher *fsnotify.Watcher
	if !r.cfg.Looks {
		watcher, _ = fsnotify.NewWatcher() // there may be too many: then looking has to do
	}
	if watcher != nil {
		defer watcher.Close()
		changes, failures = watcher.Events, watcher.Errors
		watcher.Add(shared)
	}
	tick := time.NewTicker(notesLook)
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
				watcher.Add(shared) // it may be another directory by now
			}
			if !r.more && r.dir.NotesStamp() == r.seen {
				continue
			}
		}
		r.look(ctx, false)
	}
}

// look reads the file if there is anything new in it, once nobody writes it any more.
// first says that nobody has looked yet: what has been still long enough needs no
// waiting for.
func (r *notesReader) look(ctx context.Context, first bool) {
	stamp := r.dir.NotesStamp()
	data, err := r.dir.Notes()
	if err == nil && !r.known(ctx, data) {
		if still := r.still(); !first || stamp.Age(time.Now()) < still {
			if comeToRest(ctx, still, r.dir.NotesStamp); ctx.Err() != nil {
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
	r.take(context.WithoutCancel(ctx), data)
}

func (r *notesReader) still() time.Duration {
	if r.cfg.Still > 0 {
		return r.cfg.Still
	}
	return notesStill
}

// comeToRest returns when stamp has been the same for a while, when it has changed for too
// long, or when ctx ends.
func comeToRest[S comparable](ctx context.Context, still time.Duration, stamp func() S) {
	tick := time.NewTicker(still)
	defer tick.Stop()
	last := stamp()
	for waited := time.Duration(0); waited < notesPatience; waited += still {
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

// known tells whether there is nothing new in data.
func (r *notesReader) known(ctx context.Context, data []byte) bool {
	n := r.notes.of(r.task)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.upTo(ctx, r.cfg.Store, r.task) == nil && n.known.Added(data).Blank()
}

// take reads the news in data, once. What is answered and that it was read is one
// batch, so that a crash leaves neither without the other.
func (r *notesReader) take(ctx context.Context, data []byte) {
	n := r.notes.of(r.task)
	for range 9 {
		n.mu.Lock()
		err := n.upTo(ctx, r.cfg.Store, r.task)
		news := n.known.Added(data)
		n.mu.Unlock()
		if err != nil {
			return
		}
		open, closed, err := r.mayAnswer(ctx)
		if err != nil {
			return
		}
		for _, part := range news.Sort(open, closed) {
			if err = r.keep(ctx, part); err != nil {
				break
			}
		}
		if errors.Is(err, store.ErrConflict) {
			continue // somebody was quicker: what is left is for another gate, or a note
		}
		if err != nil {
			r.more = true // once more, a little later
			return
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.upTo(ctx, r.cfg.Store, r.task) == nil {
			n.known, r.more = news.Read(), news.More()
		}
		return
	}
}

// mayAnswer returns the gates of the task that notes may answer, and all others. What
// asks whether something may be done is never among the former, nor are questions about
// what was cut off or cannot be merged: agents may be able to write notes.
func (r *notesReader) mayAnswer(ctx context.Context) (open, closed []string, err error) {
	gates, err := r.gates.Gates(ctx, store.GateFilter{Task: r.task})
	for _, g := range gates {
		asks := g.Source == store.SourceFlow || g.Source == store.SourceWorker || g.Source == store.SourceAgent
		if g.Kind == store.GateInput && g.State == store.GateOpen && asks {
			open = append(open, g.ID)
		} else {
			closed = append(closed, g.ID)
		}
	}
	return open, closed, err
}

// keep records that a part was read, and answers the gate that it is for.
func (r *notesReader) keep(ctx context.Context, part task.Part) error {
	var events []store.Event
	for _, reading := range part.Readings {
		events = append(events, event.New(r.row, r.cfg.Now().UnixMilli(), reading))
	}
	if part.Gate == "" {
		return r.cfg.Store.Commit(ctx, store.Batch{Events: events})
	}
	_, err := r.gates.Answer(ctx, part.Gate, gate.Answer{Text: part.Text, Via: store.ViaNotes, Beside: events})
	return err
}

// warn tells once that the file cannot be read.
func (r *notesReader) warn(ctx context.Context, why error) {
	if why.Error() == r.warned {
		return
	}
	r.warned = why.Error()
	ev := event.New(r.row, r.cfg.Now().UnixMilli(), event.NotesRefused{Message: event.Text(why.Error())})
	if r.cfg.Store.Commit(context.WithoutCancel(ctx), store.Batch{Events: []store.Event{ev}}) != nil {
		r.warned = "" // nobody heard of it
	}
}
