package taskdir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// A DirWriter draws task directories from the store. It is ready to use once Store and Reader are
// set. It remembers its progress with each task, so that the next drawing is cheap.
// Methods may be called concurrently.
type DirWriter struct {
	Store  store.Store
	Reader *thread.Reader
	// Program is the command that people type, for the command lines in files.
	Program Program

	mu    sync.Mutex
	tasks map[string]*drawn
}

// drawn is the state of a task's drawing.
type drawn struct {
	mu sync.Mutex
	progress
}

// progress is what drawn remembers between drawings. Its zero value means that nothing is drawn.
type progress struct {
	complete  bool // everything was drawn once, and nothing has failed since
	driven    bool
	events    journalState
	now       map[string]activity // by running attempt
	instances instances
	proofs    proofs
	reports   reports
}

func (b *DirWriter) drawn(task string) *drawn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tasks == nil {
		b.tasks = make(map[string]*drawn)
	}
	if b.tasks[task] == nil {
		b.tasks[task] = &drawn{}
	}
	return b.tasks[task]
}

// Forget makes the next drawing of a task look at everything, as the first one does.
func (b *DirWriter) Forget(task string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.tasks, task)
}

// Draw brings the directory of a task up to date. driven means that a process drives the task now.
// If a part cannot be drawn, Draw returns an error and draws the rest; the next Draw tries again.
// Concurrent processes must hold a lease: otherwise events.jsonl can have duplicate lines until it
// is drawn from the beginning again. The error matches store.ErrNotFound if there is no such task.
func (b *DirWriter) Draw(ctx context.Context, task string, driven bool) error {
	d := b.drawn(task)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.complete && d.driven == driven {
		if behind, err := b.behind(ctx, task, d); err != nil || !behind {
			return err
		}
	}
	if err := b.draw(ctx, task, driven, &d.progress); err != nil {
		d.complete = false
		return fmt.Errorf("draw task %s: %w", task, err)
	}
	return nil
}

// Behind reports whether a task has changed since it was drawn, or was not drawn completely.
func (b *DirWriter) Behind(ctx context.Context, task string) (bool, error) {
	d := b.drawn(task)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.complete {
		return true, nil
	}
	return b.behind(ctx, task, d)
}

func (b *DirWriter) behind(ctx context.Context, task string, d *drawn) (bool, error) {
	more, err := b.Store.Events(ctx, d.events.pos, store.EventFilter{Task: task, Limit: 1})
	return len(more) > 0, err
}

func (b *DirWriter) draw(ctx context.Context, task string, driven bool, p *progress) error {
	row, err := view.RootOf(ctx, b.Store, task)
	if err != nil {
		return err
	}
	root, err := At(row.Workspace, task).open()
	if err != nil {
		return err
	}
	defer root.Close()
	if !p.complete {
		err = createFiles(root, b.Program, task, view.OnTeam(row))
	}
	if row.Status != store.Pending || driven {
		// Not earlier: this reads every step of a fork, and the time that forking takes must not
		// depend on their number.
		err = errors.Join(err, p.proofs.inherit(ctx, b.Store, b.Reader, task))
	}
	// The journal comes first, so that the rows read after it are never older than what counts as
	// drawn.
	var copyErr error
	if p.events, copyErr = copyEvents(ctx, b.Store, root, task, p.events, p.add); copyErr != nil {
		err = errors.Join(err, copyErr)
	}
	r, readErr := b.record(ctx, task, driven)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	d := drawing{b.Store, b.Reader, r, root, !p.complete}
	err = errors.Join(err, drawTask(root, b.Program, r.Task(), p.now), p.instances.draw(ctx, d), p.proofs.draw(ctx, d),
		p.reports.draw(ctx, d, p.proofs.list))
	p.complete, p.driven = err == nil, driven
	return err
}

// drawTask draws task.yaml and the state board.
func drawTask(root *os.Root, p Program, v view.Task, now map[string]activity) error {
	v = withCommands(p, v)
	if v.Result != nil && len(*v.Result) > maxText {
		v.Result = nil
	}
	text, err := YAML(v)
	if err == nil {
		err = draw(root, "task.yaml", text)
	}
	block, boardErr := boardText(p, v, now)
	if boardErr == nil {
		boardErr = drawBoard(root, block)
	}
	return errors.Join(err, boardErr)
}

// record reads the record of a task.
func (b *DirWriter) record(ctx context.Context, task string, driven bool) (view.TaskRecord, error) {
	return (&view.Reader{Store: b.Store, Nodes: b.Reader}).TaskRecord(ctx, task, driven)
}

// add records an event that is copied.
func (p *progress) add(ev store.Event) {
	p.instances.add(ev)
	p.proofs.add(ev)
	p.reports.add(ev)
	if p.now == nil {
		p.now = make(map[string]activity)
	}
	switch said := event.Read(ev).(type) {
	case event.AttemptStarted:
		p.now[ev.Attempt] = activity{last: "started"}
	case event.AgentItems:
		d := p.now[ev.Attempt]
		d.add(said)
		p.now[ev.Attempt] = d
	case event.AttemptCompleted, event.AttemptFailed:
		delete(p.now, ev.Attempt)
	}
}

// Evidence lists the entries of a task in commit order, inherited ones first.
func (b *DirWriter) Evidence(ctx context.Context, task string) ([]Entry, error) {
	var p proofs
	err := p.inherit(ctx, b.Store, b.Reader, task)
	if err == nil {
		of := store.EventFilter{Task: task, Types: event.Types(event.EvidenceAdded{})}
		err = event.Each(ctx, b.Store, of, new(int64), func(ev store.Event) error { p.add(ev); return nil })
	}
	if err == nil {
		err = p.read(ctx, b.Reader)
	}
	if err != nil {
		return nil, fmt.Errorf("list evidence of task %s: %w", task, err)
	}
	return p.list(), nil
}

// YAML returns task.yaml.
func YAML(v view.Task) ([]byte, error) {
	var buf bytes.Buffer
	buf.WriteString("# Drawn by Plait from its record; what is changed here is overwritten.\n")
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(v), enc.Close()); err != nil {
		return nil, fmt.Errorf("write task.yaml: %w", err)
	}
	return buf.Bytes(), nil
}
