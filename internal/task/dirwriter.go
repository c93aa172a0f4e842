package task

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
	"github.com/plait-run/plait/internal/view"
)

// A DirWriter draws task directories from the store. The zero DirWriter with a Store and a
// Reader is ready. It remembers how far it has come with each task, so that the next
// drawing is cheap. Methods may be called concurrently.
type DirWriter struct {
	Store  store.Store
	Reader *thread.Reader
	// Program is what files say that people can type.
	Program view.Program

	mu    sync.Mutex
	tasks map[string]*drawn
}

// drawn is how far the drawing of a task has come.
type drawn struct {
	mu sync.Mutex
	progress
}

// progress is what drawn keeps; its zero value is nothing yet.
type progress struct {
	laid   bool // everything was drawn once, and nothing failed since
	driven bool
	events copied
	now    map[string]activity   // by attempt that has not ended
	steps  map[string]newestStep // by instance
	dirty  map[string]bool       // instances that something happened to
	proofs proofs
	reports
}

// newestStep is the newest step of an instance.
type newestStep struct {
	attempt string
	step    dag.Hash
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

// Draw brings the directory of a task up to date. driven says that a process drives
// the task now. What cannot be drawn is told by the error, all else is drawn, and the
// next Draw tries again. Whoever draws while others may holds a lease: two at once
// can leave lines of events.jsonl twice, until somebody draws from the beginning.
// store.ErrNotFound.
func (b *DirWriter) Draw(ctx context.Context, task string, driven bool) error {
	d := b.drawn(task)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.laid && d.driven == driven {
		if behind, err := b.behind(ctx, task, d); err != nil || !behind {
			return err
		}
	}
	if err := b.draw(ctx, task, driven, &d.progress); err != nil {
		d.laid = false
		return fmt.Errorf("draw task %s: %w", task, err)
	}
	return nil
}

// Behind reports whether something has happened to a task since it was drawn, or not
// all of it could be drawn.
func (b *DirWriter) Behind(ctx context.Context, task string) (bool, error) {
	d := b.drawn(task)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.laid {
		return true, nil
	}
	return b.behind(ctx, task, d)
}

func (b *DirWriter) behind(ctx context.Context, task string, d *drawn) (bool, error) {
	news, err := b.Store.Events(ctx, d.events.pos, store.EventFilter{Task: task, Limit: 1})
	return len(news) > 0, err
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
	if !p.laid {
		err = lay(root, b.Program, task, view.OnTeam(row))
	}
	if row.Status != store.Pending || driven {
		// Not before: it reads every step that a fork has, and to fork takes as long however many there are.
		err = errors.Join(err, p.proofs.inherit(ctx, b, task))
	}
	// The journal first: rows that are read after it are never older than what is
	// taken for drawn.
	var copyErr error
	if p.events, copyErr = copyEvents(ctx, b.Store, root, task, p.events, p.add); copyErr != nil {
		err = errors.Join(err, copyErr)
	}
	r, readErr := b.record(ctx, task, driven)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	v := withCommands(b.Program, r.Task())
	text, yamlErr := YAML(v)
	if yamlErr == nil {
		yamlErr = draw(root, "task.yaml", text)
	}
	err = errors.Join(err, yamlErr, drawBoard(root, boardText(b.Program, v, p.now)), b.drawInstances(ctx, root, r, p),
		b.drawEvidence(ctx, root, p), b.drawReports(ctx, root, r, p))
	p.laid, p.driven = err == nil, driven
	return err
}

// record reads what the record holds about a task.
func (b *DirWriter) record(ctx context.Context, task string, driven bool) (view.TaskRecord, error) {
	return (&view.Reader{Store: b.Store, Nodes: b.Reader}).TaskRecord(ctx, task, driven)
}

// drawInstances draws what belongs to instances: all of them the first time, then
// those that something happened to.
func (b *DirWriter) drawInstances(ctx context.Context, root *os.Root, r view.TaskRecord, p *progress) error {
	tried := make(map[string][]store.Attempt)
	for _, a := range r.Attempts {
		if !p.laid || p.dirty[a.Instance] {
			tried[a.Instance] = append(tried[a.Instance], a)
		}
	}
	var err error
	for name, attempts := range tried {
		last := view.NewestAttempt(attempts)
		if one := b.drawInstance(ctx, root, r.Thread(last.Thread), attempts, p.steps[name]); one != nil {
			err = errors.Join(err, fmt.Errorf("instance %s: %w", name, one))
		}
	}
	p.dirty = nil
	return err
}

// add takes in an event that is copied.
func (p *progress) add(ev store.Event) {
	p.reports.add(ev)
	switch said := event.Read(ev).(type) {
	case event.EvidenceAdded:
		p.proofs.add(ev)
	case event.AttemptStarted:
		p.note(ev.Attempt, activity{last: "started"})
	case event.AgentItems:
		d := p.now[ev.Attempt]
		d.add(said)
		p.note(ev.Attempt, d)
	case event.AttemptCompleted:
		if !said.Step.IsZero() {
			if p.steps == nil {
				p.steps = make(map[string]newestStep)
			}
			p.steps[ev.Instance] = newestStep{ev.Attempt, said.Step}
		}
		p.ended(ev)
	case event.AttemptFailed:
		p.ended(ev)
	}
}

func (p *progress) note(attempt string, d activity) {
	if p.now == nil {
		p.now = make(map[string]activity)
	}
	p.now[attempt] = d
}

func (p *progress) ended(ev store.Event) {
	delete(p.now, ev.Attempt)
	if p.dirty == nil {
		p.dirty = make(map[string]bool)
	}
	p.dirty[ev.Instance] = true
}

// YAML is task.yaml.
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
