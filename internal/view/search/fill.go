package search

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"zombiezen.com/go/sqlite"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// A Progress is how far an index has come.
type Progress struct {
	Position int64 `json:"position"` // of the last event that it has read
	Last     int64 `json:"last"`     // of the last event of the record
	Complete bool  `json:"complete"`
}

const (
	batch    = 100       // events read in one transaction
	maxField = 128 << 10 // bytes of a text that are indexed
)

// CatchUp reads what the record has since the last time, but stops after about the given time.
func (x Index) CatchUp(ctx context.Context, most time.Duration) (p Progress, err error) {
	c, err := x.open(ctx)
	if err != nil {
		return p, x.explain(err)
	}
	p, err = x.catchUp(ctx, c, most)
	return p, x.explain(errors.Join(err, c.Close()))
}

// Keep is CatchUp, until ctx ends, for an index that there is since somebody searched. It takes at most one part in
// share of the time.
func (x Index) Keep(ctx context.Context, every time.Duration, share int) {
	for ctx.Err() == nil {
		began, pause := time.Now(), every
		if _, err := os.Stat(x.path); err == nil {
			p, err := x.CatchUp(ctx, every/time.Duration(share)) // a search reports what fails
			pause = max(every, time.Duration(share)*time.Since(began))
			if err == nil && p.Complete {
				x.views.Store.Wait(ctx, p.Last)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (x Index) catchUp(ctx context.Context, c *sqlite.Conn, most time.Duration) (p Progress, err error) {
	end := time.Now().Add(most)
	if err = x.honor(ctx, c); err != nil {
		return p, err
	}
	for {
		err = within(c, func() (err error) {
			p, err = x.read(ctx, c)
			return err
		})
		if err != nil || p.Complete || time.Now().After(end) {
			return p, err
		}
	}
}

// honor takes out what the record no longer has since the last time, wherever it was removed.
func (x Index) honor(ctx context.Context, c *sqlite.Conn) error {
	gone := false
	err := within(c, func() error {
		size, position, removals, err := x.state(ctx, c)
		if err != nil {
			return err
		}
		var tasks []string
		redacted := false
		f := store.EventFilter{Types: event.Types(event.ThreadRemoved{}, event.TaskImported{}, event.TaskRedacted{})}
		err = event.Each(ctx, x.views.Store, f, &removals, func(ev store.Event) error {
			redacted = redacted || event.Is(ev, event.TaskRedacted{})
			tasks = append(tasks, ev.Thread)
			return nil
		})
		if err != nil {
			return err
		}
		switch gone = len(tasks) > 0 && position > 0; {
		case gone && redacted:
			err = empty(c)
		case gone:
			err = x.forget(ctx, c, tasks)
		}
		if err != nil {
			return err
		}
		return exec(c, "UPDATE state SET removals = ?", nil, max(size, removals))
	})
	if err == nil && gone {
		err = settle(c)
	}
	return err
}

// state returns the size of the record's log, and how far it was read. If the index is of another history of the
// record, such as one before a backup was restored, it is emptied.
func (x Index) state(ctx context.Context, c *sqlite.Conn) (size, position, removals int64, err error) {
	log, err := x.views.Store.Log(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	size = log.Tree.Size()
	var leaf string
	err = exec(c, "SELECT position, leaf, removals FROM state", func(s *sqlite.Stmt) error {
		position, leaf, removals = s.ColumnInt64(0), s.ColumnText(1), s.ColumnInt64(2)
		return nil
	})
	if err != nil || position == 0 {
		return size, 0, removals, err
	}
	is, err := x.leaf(ctx, position)
	if err == nil && is != leaf {
		position, removals = 0, 0
		err = empty(c)
	}
	return size, position, removals, err
}

// leaf returns the leaf of a position of the log, which no removal changes; "" if there is none.
func (x Index) leaf(ctx context.Context, position int64) (string, error) {
	entries, err := x.views.Store.Entries(ctx, position-1, 1)
	if err != nil || len(entries) == 0 {
		return "", err
	}
	return entries[0].Hash().String(), nil
}

// read reads the next events, and what the threads that they name have new.
func (x Index) read(ctx context.Context, c *sqlite.Conn) (p Progress, err error) {
	size, position, _, err := x.state(ctx, c)
	if err != nil {
		return p, err
	}
	p = Progress{Position: position, Last: size}
	events, err := x.views.Store.Events(ctx, position, store.EventFilter{Types: moving, Limit: batch})
	if err != nil {
		return p, err
	}
	if p.Complete = len(events) < batch; p.Complete {
		p.Position = max(p.Position, size)
	}
	seen := map[string]bool{}
	for _, ev := range events {
		p.Position = max(p.Position, ev.Pos)
		if !seen[ev.Thread] {
			if err := x.thread(ctx, c, ev.Thread); err != nil {
				return p, err
			}
		}
		seen[ev.Thread] = true
	}
	p.Last = max(p.Last, p.Position)
	leaf, err := x.leaf(ctx, p.Position)
	if err != nil || p.Position == 0 {
		return p, err
	}
	return p, exec(c, "UPDATE state SET position = ?, leaf = ?", nil, p.Position, leaf)
}

// moving are the types of events that may come with a step: all but those of an agent at work.
var moving = slices.DeleteFunc(event.All(), func(typ string) bool {
	return slices.Contains(event.Types(event.AgentItems{}, event.AttemptStarted{}, event.EvidenceAdded{}), typ)
})

// thread adds what a thread has new.
func (x Index) thread(ctx context.Context, c *sqlite.Conn, id string) error {
	row, err := x.views.Store.Thread(ctx, id)
	if err == nil && row.ID == row.Task {
		err = x.task(ctx, c, row)
	}
	if err == nil {
		var steps []view.Step
		steps, err = x.views.NewSteps(ctx, row, func(h dag.Hash) (bool, error) { return known(c, h.String()) })
		for i := 0; i < len(steps) && err == nil; i++ {
			silent := steps[i].Paths != nil || !steps[i].ChildThread.IsZero() ||
				steps[i].Role == thread.RoleEnd && x.repeats(ctx, row, steps[i].Text)
			err = x.step(ctx, c, row, steps[i], silent)
		}
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		return nil // it was removed meanwhile, or verify reports it
	}
	return err
}

// repeats reports whether the text of a thread's end, often a step's first line, is in its last answer.
func (x Index) repeats(ctx context.Context, row store.Thread, end string) bool {
	result, err := x.views.Result(ctx, row)
	if err != nil || result.Step == nil {
		return false
	}
	said, err := x.views.Nodes.Said(ctx, result.Step)
	return err == nil && strings.Contains(said, end)
}

func known(c *sqlite.Conn, step string) (is bool, err error) {
	err = exec(c, "SELECT 1 FROM doc WHERE step = ?", func(*sqlite.Stmt) error {
		is = true
		return nil
	}, step)
	return is, err
}

// task adds the title and the prompt of a task.
func (x Index) task(ctx context.Context, c *sqlite.Conn, row store.Thread) error {
	if is, err := known(c, row.ID); err != nil || is {
		return err
	}
	title, err := x.views.Title(ctx, row)
	if err != nil {
		return err
	}
	asked, err := x.views.ThreadPrompt(ctx, row)
	if err != nil {
		return err
	}
	origin := ""
	if row.ForkedFrom != nil {
		from, err := x.views.Store.Thread(ctx, row.ForkedFrom.Thread)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		origin = from.Task
	}
	return add(c, doc{task: row.ID, thread: row.ID, step: row.ID, at: row.CreatedAt, origin: origin}, title, asked, "", "", "")
}

// step adds a step, without words if others have them.
func (x Index) step(ctx context.Context, c *sqlite.Conn, row store.Thread, s view.Step, silent bool) error {
	d := doc{task: row.Task, thread: row.ID, step: s.Hash.String(), n: s.N, role: s.Role, at: s.Timestamp}
	asked := ""
	if s.Detail != nil {
		d.agent = s.Detail.Agent
		if !s.Detail.Prompt.IsZero() && !silent {
			var err error
			if asked, err = prompt.Instruction(ctx, x.views.Nodes, s.Detail.Prompt); err != nil {
				return err
			}
		}
	}
	if silent {
		return add(c, d)
	}
	said := append([]string{s.Text}, fields(s.Meta)...)
	var commands, files []string
	if s.Detail != nil {
		if before, after := s.Detail.Trees(); before != after && before != "" && after != "" {
			files = x.changed(ctx, row.Workspace, before, after)
		}
	}
	if s.Done != nil {
		for _, did := range s.Done.Commands {
			commands = append(commands, did.Command)
		}
		for _, did := range s.Done.Files {
			if !slices.Contains(files, did.Path) {
				files = append(files, did.Path)
			}
		}
	}
	return add(c, d, "", asked, strings.Join(said, "\n"), strings.Join(commands, "\n"), strings.Join(files, "\n"))
}

// A doc is where words were said.
type doc struct {
	task, thread, step string // a hash, or the task's id for what it was asked
	n                  int
	role, agent        string
	at                 int64
	origin             string // of a task: the one that it was forked from
}

// add adds a doc with its words in the order of the columns, none for what is never found.
func add(c *sqlite.Conn, d doc, words ...string) error {
	err := exec(c, "INSERT INTO doc (task, thread, step, n, role, agent, at, origin) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", nil,
		d.task, d.thread, d.step, d.n, d.role, d.agent, d.at, d.origin)
	if err != nil || len(words) == 0 {
		return err
	}
	args := []any{c.LastInsertRowID()}
	for _, s := range words {
		args = append(args, spaced(text.Head(s, maxField)))
	}
	return exec(c, "INSERT INTO words (rowid, title, prompt, output, command, file) VALUES (?, ?, ?, ?, ?, ?)", nil, args...)
}

// forget takes tasks out. What forks of them share with them is theirs from now on.
func (x Index) forget(ctx context.Context, c *sqlite.Conn, tasks []string) error {
	var forks []string
	for _, id := range tasks {
		err := exec(c, "SELECT task FROM doc WHERE origin = ?", func(s *sqlite.Stmt) error {
			forks = append(forks, s.ColumnText(0))
			return nil
		}, id)
		if err != nil {
			return err
		}
	}
	for _, id := range slices.Concat(tasks, forks) {
		for _, q := range []string{"DELETE FROM words WHERE rowid IN (SELECT id FROM doc WHERE task = ?)",
			"DELETE FROM doc WHERE task = ?"} {
			if err := exec(c, q, nil, id); err != nil {
				return err
			}
		}
	}
	// Words that are deleted are only marked, until the parts of the index are merged.
	if err := exec(c, "INSERT INTO words (words) VALUES ('optimize')", nil); err != nil {
		return err
	}
	for _, id := range forks {
		rows, err := x.views.Store.Threads(ctx, store.ThreadFilter{Task: id})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := x.thread(ctx, c, row.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// fields returns the texts of a step's meta, but for its status.
func fields(meta json.RawMessage) (out []string) {
	var v any
	json.Unmarshal(meta, &v) // what cannot be read has none
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				if k != "$status" {
					walk(v[k])
				}
			}
		}
	}
	walk(v)
	return out
}

// Marks in texts of the index: what separates characters that are words, and what begins and ends a match.
const (
	between = '\x1f'
	begins  = '\x02'
	ends    = '\x03'
)

// spaced puts a mark around each character of a writing system that does not separate words, so that each is a word.
// Marks and NULs that a text had before are taken out.
func spaced(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		switch {
		case r == between || r == begins || r == ends || r == 0:
		case r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai):
			b.WriteRune(between)
			b.WriteRune(r)
			b.WriteRune(between)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
