package briefing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// toldNotes is how many bytes of notes a prompt repeats: the newest notes.
const toldNotes = 64 << 10

// A noteBook remembers the notes in the journals of tasks, so that each journal is read once. Its zero value is
// ready to use.
type noteBook struct {
	mu    sync.Mutex
	tasks map[string]*taskNotes
}

// taskNotes holds the notes in the journal of a task. Few tasks have any: only for those does it look up when
// attempts began.
type taskNotes struct {
	pos   int64
	notes []note           // oldest first
	part  string           // of a note that continues in the next event
	began map[string]begun // by attempt
	seen  int64            // position in the journal up to which began is known
}

// A note is a text for later prompts.
type note struct {
	pos, ts int64
	text    string
}

// begun is when a prompt was made.
type begun struct{ pos, ts int64 }

// noteMargin is how long, in ms, a note may take to reach the journal while a prompt is being made. Repeating a
// note is better than losing it.
const noteMargin = 1000

// Notes returns the notes of a task for a prompt. after is the attempt that was told the earlier ones, or "".
func (b *Briefer) Notes(ctx context.Context, task, after string) ([]string, error) {
	n := &b.notes
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
	if err := t.catchUp(ctx, b.cfg.Store, task); err != nil {
		return nil, fmt.Errorf("read notes of task %s: %w", task, err)
	}
	var at begun
	known := len(t.notes) > 0 && after != ""
	if known {
		if err := t.learn(ctx, b.cfg.Store, task); err != nil {
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
		out = append(out, fmt.Sprintf("%d earlier notes are left out here; see shared/human-notes.md.", left))
	}
	slices.Reverse(out)
	return out, nil
}

// catchUp reads the notes written since the last call.
func (t *taskNotes) catchUp(ctx context.Context, journal store.Journal, task string) error {
	of := store.EventFilter{Task: task, Types: event.Types(event.NotesRead{})}
	return event.Each(ctx, journal, of, &t.pos, func(ev store.Event) error {
		r, ok := event.Read(ev).(event.NotesRead)
		if !ok {
			return nil
		}
		t.part += r.Text
		if r.More {
			return nil
		}
		if r.Gate == "" {
			t.notes = append(t.notes, note{ev.Pos, ev.TS, t.part})
		}
		t.part = ""
		return nil
	})
}

// learn reads the attempts begun since the last call.
func (t *taskNotes) learn(ctx context.Context, journal store.Journal, task string) error {
	of := store.EventFilter{Task: task, Types: event.Types(event.AttemptStarted{})}
	return event.Each(ctx, journal, of, &t.seen, func(ev store.Event) error {
		t.began[ev.Attempt] = begun{ev.Pos, ev.TS}
		return nil
	})
}

// quoted quotes a note, so that it cannot pass for a part of the prompt.
func quoted(text string) string {
	return "From the notes on this task (shared/human-notes.md):\n> " + strings.ReplaceAll(strings.TrimSpace(text),
		"\n", "\n> ")
}
