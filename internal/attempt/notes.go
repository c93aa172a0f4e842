package attempt

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// toldNotes bounds what a prompt repeats of notes, in bytes: the newest are told.
const toldNotes = 64 << 10

// notesPage is how many events are read from the journal at a time.
const notesPage = 1000

// notes remembers what the journals of tasks say of notes, so that each is read once. Its zero
// value is ready.
type noteBook struct {
	mu    sync.Mutex
	tasks map[string]*taskNotes
}

// taskNotes is what the journal of a task says of notes. Few tasks have any: the beginnings of
// attempts are looked for in those only.
type taskNotes struct {
	pos   int64
	notes []note           // oldest first
	part  string           // of a note that goes on in the next event
	began map[string]begun // by attempt
	seen  int64            // how far began goes
}

// A note is a text for later prompts.
type note struct {
	pos, ts int64
	text    string
}

// begun is when a prompt was made.
type begun struct{ pos, ts int64 }

// noteMargin is how long, in ms, a note may have been on its way into the journal when a
// prompt was made. Told twice is better than never.
const noteMargin = 1000

// Notes returns the notes of a task for a prompt. after is the attempt by which the earlier ones were
// told, or "".
func (e *Runner) Notes(ctx context.Context, task, after string) ([]string, error) {
	return e.notes.read(ctx, e.cfg.Store, task, after)
}

// read returns the notes of a task for a prompt. after is the attempt by which the
// earlier ones were told, or "".
func (n *noteBook) read(ctx context.Context, journal store.Journal, task, after string) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tasks == nil {
		n.tasks = make(map[string]*taskNotes)
	}
	t := n.tasks[task]
	if t == nil {
		t = &taskNotes{began: make(map[string]begun)}
		n.tasks[task] = t
	}
	if err := t.catchUp(ctx, journal, task); err != nil {
		return nil, fmt.Errorf("read notes of task %s: %w", task, err)
	}
	var at begun
	known := len(t.notes) > 0 && after != ""
	if known {
		if err := t.learn(ctx, journal, task); err != nil {
			return nil, fmt.Errorf("read attempts of task %s: %w", task, err)
		}
		at, known = t.began[after]
	}
	var out []string
	size, left := 0, 0
	for _, one := range slices.Backward(t.notes) {
		if known && one.pos < at.pos && one.ts < at.ts-noteMargin {
			break
		}
		if size += len(one.text); size > toldNotes && len(out) > 0 {
			left++
			continue
		}
		out = append(out, quoted(one.text))
	}
	if left > 0 {
		out = append(out, fmt.Sprintf("%d earlier notes are left out here; they stand in shared/human-notes.md.", left))
	}
	slices.Reverse(out)
	return out, nil
}

// catchUp takes in the notes since.
func (t *taskNotes) catchUp(ctx context.Context, journal store.Journal, task string) error {
	return eachEvent(ctx, journal, task, event.NotesRead{}, &t.pos, func(ev store.Event) {
		r, ok := event.Read(ev).(event.NotesRead)
		if !ok {
			return
		}
		if t.part += r.Text; r.More {
			return
		}
		if r.Gate == "" {
			t.notes = append(t.notes, note{ev.Pos, ev.TS, t.part})
		}
		t.part = ""
	})
}

// learn takes in the attempts since.
func (t *taskNotes) learn(ctx context.Context, journal store.Journal, task string) error {
	return eachEvent(ctx, journal, task, event.AttemptStarted{}, &t.seen, func(ev store.Event) {
		t.began[ev.Attempt] = begun{ev.Pos, ev.TS}
	})
}

// eachEvent calls do with the events of a task after pos that are of the type of p, and moves pos on.
func eachEvent(ctx context.Context, journal store.Journal, task string, p event.Payload, pos *int64,
	do func(store.Event)) error {
	for {
		events, err := journal.Events(ctx, *pos, store.EventFilter{Task: task, Types: event.Types(p), Limit: notesPage})
		if err != nil {
			return err
		}
		for _, ev := range events {
			*pos = ev.Pos
			do(ev)
		}
		if len(events) < notesPage {
			return nil
		}
	}
}

// quoted quotes a note: it cannot pass for a part of the prompt.
func quoted(text string) string {
	return "From the notes on this task (shared/human-notes.md):\n> " + strings.ReplaceAll(strings.TrimSpace(text),
		"\n", "\n> ")
}

// addNotes puts into a prompt what people noted and what every agent is handed. A session
// that is continued knows the notes that it was told; files are handed over each time,
// since the context directory is emptied.
func (e *Runner) addNotes(ctx context.Context, c *Thread, p *Prepared, ask *thread.Prompt) error {
	after := ""
	if !ask.Since.IsZero() {
		after = c.sessions[p.Row.Role].told
	}
	var err error
	if ask.Notes, err = e.Notes(ctx, c.Row.Task, after); err != nil {
		return err
	}
	p.given.attachments = e.cfg.Desks.Attached(c.Row)
	for _, a := range p.given.attachments {
		ask.Notes = append(ask.Notes, a.Line)
	}
	return nil
}
