// Package redact takes a text that should not be there out of a record: a key that was pasted, a person's name.
//
// Its input is a store and the text; its output is a report. It finds the text as it is and as JSON, URLs and base64
// spell it (package secret), in objects, rows and events, and puts asterisks in its place, as many as it has bytes,
// since prompts name parts of texts by their bytes. Laws:
//
//   - Hashes stay: an object that had the text is kept under its old hash and says that it was redacted, so every step,
//     reference and proof around it holds.
//   - Each task that had it says so in an event: who, why, how much, and which answers can no longer be compared. What
//     is kept of objects is in the proof of an event of no task, so that nobody can replace one unseen.
//   - What the record is built on, such as an id or a name of a role, is not replaced: then nothing is.
//   - What was asked with it, and is open or has an answer that no step has used, is asked again.
//   - No task that is being driven is changed.
//
// It never keeps the text or its hash, and reads no files: see Files for those.
package redact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/secret"
)

// Config says what to redact, in which store, and for whom.
type Config struct {
	Store  store.Store
	Text   string // at least secret.Least bytes
	By     string
	Reason string
	Now    func() time.Time

	// Hold takes the lease of a task. Its error ends the redaction.
	Hold func(ctx context.Context, task string) (store.Lease, error)
}

// A Report counts what has the text.
type Report struct {
	Tasks   []string `json:"tasks"` // root threads, sorted
	Objects int      `json:"objects"`
	Rows    int      `json:"rows"` // of threads, attempts, gates and requests
	Events  int      `json:"events"`
	Asked   []string `json:"asked"` // gates that are asked again when their tasks continue
}

// ErrName says that the record is built on the text.
var ErrName = errors.New("the text is part of a name that the record is built on")

// maxBytes and maxObjects bound the objects that one batch replaces, and whose hashes one event has.
const (
	maxBytes   = 32 << 20
	maxObjects = 10_000
)

// Find reports what has the text.
func Find(ctx context.Context, cfg Config) (Report, error) {
	f, err := find(ctx, cfg)
	if err != nil {
		return Report{}, fmt.Errorf("look for the text: %w", err)
	}
	return f.report(), nil
}

// Run redacts. After an error objects, and some of the tasks, may be redacted already; it can be repeated.
func Run(ctx context.Context, cfg Config) (Report, error) {
	r, err := run(ctx, cfg)
	if err != nil {
		return r, fmt.Errorf("redact: %w", err)
	}
	return r, nil
}

func run(ctx context.Context, cfg Config) (Report, error) {
	leases := map[string]store.Lease{}
	defer func() {
		for _, l := range leases {
			l.Release()
		}
	}()
	f, err := find(ctx, cfg)
	for err == nil {
		more := false
		for _, task := range slices.Sorted(maps.Keys(f.tasks)) {
			if leases[task] == nil && task != "" {
				if leases[task], err = cfg.Hold(ctx, task); err != nil {
					delete(leases, task)
					return Report{}, fmt.Errorf("task %s: %w", task, err)
				}
				more = true
			}
		}
		if !more {
			break
		}
		// Its driver may have written since.
		f, err = find(ctx, cfg)
	}
	if err != nil {
		return Report{}, err
	}
	var under []store.Fence
	for _, l := range leases {
		under = append(under, l.Fence())
	}
	r := f.report()
	for len(f.objects) > 0 {
		b := store.Batch{Under: under}
		for size := 0; len(f.objects) > 0 && size < maxBytes && len(b.Redact.Objects) < maxObjects; {
			o, err := f.clean(ctx, f.objects[0])
			if err != nil {
				return r, err
			}
			size += len(o.Data)
			b.Redact.Objects, f.objects = append(b.Redact.Objects, o), f.objects[1:]
		}
		p := f.payload()
		p.Objects = len(b.Redact.Objects)
		b.Events = []store.Event{event.New(store.Thread{}, cfg.Now().UnixMilli(), p)}
		if err := cfg.Store.Commit(ctx, b); err != nil {
			return r, err
		}
	}
	for _, task := range slices.Sorted(maps.Keys(f.tasks)) {
		b := f.tasks[task].batch
		b.Under, b.Events = under, f.said(task)
		if err := cfg.Store.Commit(ctx, b); err != nil {
			return r, err
		}
	}
	return r, nil
}

// said returns the events that say what was redacted in a task.
func (f *found) said(task string) (events []store.Event) {
	n := f.tasks[task]
	p := f.payload()
	p.Objects, p.Rows, p.Events = n.objects, n.rows, n.events
	ids := slices.Sorted(maps.Keys(n.gates))
	for first := true; first || len(ids) > 0; first = false {
		p.Gates = map[string]dag.Hash{}
		for _, id := range ids[:min(len(ids), maxGates)] {
			p.Gates[id] = n.gates[id]
		}
		ids = ids[len(p.Gates):]
		events = append(events, event.New(store.Thread{ID: task, Task: task}, f.cfg.Now().UnixMilli(), p))
		p.Objects, p.Rows, p.Events = 0, 0, 0
	}
	return events
}

// payload returns what events say that tell who redacted, and why.
func (f *found) payload() event.TaskRedacted {
	return event.TaskRedacted{By: f.cfg.By, Reason: event.Text(f.set.Text(f.cfg.Reason))}
}

// maxGates is how many gates one event names.
const maxGates = 100

// clean returns what is kept of an object instead of its bytes.
func (f *found) clean(ctx context.Context, e store.Entry) (store.Object, error) {
	o := store.Object{Hash: e.Hash, Kind: e.Kind}
	kept, err := read(ctx, f.cfg.Store, e.Hash)
	if err != nil {
		return o, err
	}
	data, _ := store.Unredacted(kept)
	o.Data = store.Redacted(f.cleaned(e.Kind, data))
	return o, nil
}

// cleaned returns the bytes of an object without the text.
func (f *found) cleaned(kind store.Kind, data []byte) []byte {
	if kind == store.Node {
		return cleanJSON(f.set, data)
	}
	return f.set.EvenBytes(data)
}

// sameNode reports whether a node can still be read without the text, and has the same place in its thread.
func sameNode(data, clean []byte) bool {
	was, err := dag.Decode(data)
	if err != nil {
		return true // it cannot be read as it is
	}
	is, err := dag.Decode(clean)
	if err != nil || is.Type != was.Type || !slices.Equal(is.Refs, was.Refs) {
		return false
	}
	if was.Type != dag.TypeState {
		return true
	}
	var a, b thread.State
	errA, errB := was.Unmarshal(&a), is.Unmarshal(&b)
	return errA != nil || errB == nil && a.Role == b.Role && status(a.Meta) == status(b.Meta)
}

func status(meta json.RawMessage) string {
	var m struct {
		Status string `json:"$status"`
	}
	_ = json.Unmarshal(meta, &m) // a meta that is no object has none
	return m.Status
}

// same returns row without the text, and whether it had it. names are what it is found and continued by.
func same[T any](set *secret.Set, row T, names func(*T) []string) (T, bool, error) {
	data, err := json.Marshal(row)
	if err != nil {
		return row, false, err
	}
	clean := cleanJSON(set, data)
	if string(clean) == string(data) {
		return row, false, nil
	}
	var is T
	if err := json.Unmarshal(clean, &is); err != nil || !slices.Equal(names(&row), names(&is)) {
		return row, false, ErrName
	}
	was, now := reflect.ValueOf(row), reflect.ValueOf(&is).Elem()
	for i := range was.NumField() { // JSON has no difference between nothing and null
		if was.Field(i).Kind() == reflect.Slice && was.Field(i).IsNil() {
			now.Field(i).SetZero()
		}
	}
	return is, true, nil
}
