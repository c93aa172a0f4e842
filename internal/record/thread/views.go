package thread

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/atomicfile"
)

// Views draws the index as files for people and watchers:
//
//	bundles/<hash>/threads.json             active threads, by id
//	bundles/<hash>/history/YYYY-MM-DD.jsonl threads that ended that day (UTC)
//	bundles/<hash>/version                  of this layout
//	workflow.yaml                           the registry
//
// Those of a record that is not in PLAIT_HOME are below records/<id>, as several may be used with one PLAIT_HOME.
// Views without a version may hold threads of any record: older releases drew all of them into the same files.
//
// They can be deleted at any time and are then drawn again from the store. Besides Views, only
// verify reads them.
type Views struct {
	Dir    string // PLAIT_HOME
	Record string // the record's id: see [store.Store]
	Index  store.Index
}

// ViewsVersion is the text of a version file.
const ViewsVersion = "2\n"

// ViewsOf returns the path of a record's views below PLAIT_HOME, with slashes; empty for those in PLAIT_HOME itself.
func ViewsOf(record string) string {
	if record == "" {
		return ""
	}
	return path.Join("records", record)
}

// Root returns the directory of the record's views.
func (v Views) Root() string { return filepath.Join(v.Dir, ViewsOf(v.Record)) }

// An ActiveView is one entry of threads.json (seed 001).
type ActiveView struct {
	Head      dag.Hash `json:"head"`
	Start     dag.Hash `json:"start"`
	UpdatedAt int64    `json:"updatedAt"`
}

// An EndedView is one line of a history file (seed 001).
type EndedView struct {
	ThreadID    string   `json:"threadId"`
	Head        dag.Hash `json:"head"`
	Start       dag.Hash `json:"start"`
	CompletedAt int64    `json:"completedAt"`
}

// Draw redraws both views of one bundle from the store.
func (v Views) Draw(ctx context.Context, bundle dag.Hash) error {
	rows, err := v.Index.Threads(ctx, store.ThreadFilter{Bundle: bundle})
	if err != nil {
		return fmt.Errorf("draw views of %s: %w", bundle.Short(), err)
	}
	if len(rows) == 0 {
		return os.RemoveAll(v.dir(bundle))
	}
	if err := os.MkdirAll(v.history(bundle), 0o700); err != nil {
		return fmt.Errorf("draw views of %s: %w", bundle.Short(), err)
	}
	ended := days(rows)
	err = v.drawActive(bundle, rows)
	for day, lines := range ended {
		err = errors.Join(err, replace(filepath.Join(v.history(bundle), day), historyText(lines)))
	}
	// A day whose threads were all removed has no file.
	files, _ := os.ReadDir(v.history(bundle))
	for _, f := range files {
		if _, live := ended[f.Name()]; strings.HasSuffix(f.Name(), ".jsonl") && !live {
			err = errors.Join(err, os.Remove(filepath.Join(v.history(bundle), f.Name())))
		}
	}
	if err != nil {
		return err
	}
	return replace(v.version(bundle), []byte(ViewsVersion))
}

// active are the statuses of threads that have not ended.
var active = []store.Status{store.Pending, store.Running, store.Blocked}

// Update is like Draw, for a change in one task. It does not read every thread that ever ended,
// but adds to the history the lines of threads that have ended since.
func (v Views) Update(ctx context.Context, bundle dag.Hash, task string) error {
	if drawn, err := os.ReadFile(v.version(bundle)); err != nil || string(drawn) != ViewsVersion {
		return v.Draw(ctx, bundle)
	}
	var before map[string]ActiveView
	data, err := os.ReadFile(v.threads(bundle))
	if err != nil || json.Unmarshal(data, &before) != nil {
		return v.Draw(ctx, bundle)
	}
	now, err := v.Index.Threads(ctx, store.ThreadFilter{Bundle: bundle, Statuses: active})
	if err != nil {
		return fmt.Errorf("draw views of %s: %w", bundle.Short(), err)
	}
	ended, err := v.Index.Threads(ctx, store.ThreadFilter{Bundle: bundle, Task: task})
	if err != nil {
		return fmt.Errorf("draw views of %s: %w", bundle.Short(), err)
	}
	for _, rows := range [][]store.Thread{now, ended} {
		for _, t := range rows {
			delete(before, t.ID)
		}
	}
	for id := range before { // of other tasks, whose process died before drawing them
		t, err := v.Index.Thread(ctx, id)
		if err != nil { // it was removed
			return v.Draw(ctx, bundle)
		}
		ended = append(ended, t)
	}
	for day, lines := range days(ended) {
		if !extend(filepath.Join(v.history(bundle), day), lines) {
			return v.Draw(ctx, bundle)
		}
	}
	return v.drawActive(bundle, now)
}

func (v Views) dir(bundle dag.Hash) string {
	return filepath.Join(v.Root(), "bundles", bundle.String())
}
func (v Views) threads(bundle dag.Hash) string { return filepath.Join(v.dir(bundle), "threads.json") }
func (v Views) version(bundle dag.Hash) string { return filepath.Join(v.dir(bundle), "version") }
func (v Views) history(bundle dag.Hash) string { return filepath.Join(v.dir(bundle), "history") }

func (v Views) drawActive(bundle dag.Hash, rows []store.Thread) error {
	active := make(map[string]ActiveView)
	for _, t := range rows {
		if !t.Ended() {
			active[t.ID] = ActiveView{t.Head, t.Start, t.UpdatedAt}
		}
	}
	text, err := json.MarshalIndent(active, "", "  ")
	if err != nil {
		return err
	}
	return replace(v.threads(bundle), append(text, '\n'))
}

// days returns the lines of ended threads, by the name of their file.
func days(rows []store.Thread) map[string][]EndedView {
	days := make(map[string][]EndedView)
	for _, t := range rows {
		if t.Ended() {
			day := time.UnixMilli(t.EndedAt).UTC().Format(time.DateOnly) + ".jsonl"
			days[day] = append(days[day], EndedView{t.ID, t.Head, t.Start, t.EndedAt})
		}
	}
	for _, lines := range days {
		slices.SortFunc(lines, func(a, b EndedView) int {
			return cmp.Or(cmp.Compare(a.CompletedAt, b.CompletedAt), cmp.Compare(a.ThreadID, b.ThreadID))
		})
	}
	return days
}

func historyText(lines []EndedView) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for _, e := range lines {
		enc.Encode(e) // cannot fail: text and numbers, into memory
	}
	return buf.Bytes()
}

// extend appends the missing lines to a history file. It reports false if it fails or the file is torn.
func extend(path string, lines []EndedView) bool {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(old) > 0 && old[len(old)-1] != '\n' {
		return false
	}
	missing := make(map[string]bool, len(lines))
	for _, e := range lines {
		missing[e.ThreadID] = true
	}
	for line := range bytes.Lines(old) {
		id, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte(`{"threadId":"`)), []byte{'"'})
		delete(missing, string(id))
	}
	if len(missing) == 0 {
		return true
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return false
	}
	_, err = f.Write(historyText(slices.DeleteFunc(lines, func(e EndedView) bool { return !missing[e.ThreadID] })))
	return errors.Join(err, f.Close()) == nil
}

// DrawRegistry redraws workflow.yaml from the store.
func (v Views) DrawRegistry(ctx context.Context) error {
	flows, err := v.Index.Flows(ctx)
	if err != nil {
		return fmt.Errorf("draw workflow.yaml: %w", err)
	}
	var b bytes.Buffer
	if len(flows) == 0 {
		b.WriteString("workflows: {}\n")
	} else {
		b.WriteString("workflows:\n")
	}
	for _, f := range flows {
		fmt.Fprintf(&b, "  %s:\n    hash: %q\n    timestamp: %d\n", f.Name, f.Hash, f.Timestamp)
		if len(f.History) == 0 {
			b.WriteString("    history: []\n")
			continue
		}
		b.WriteString("    history:\n")
		for _, old := range f.History {
			fmt.Fprintf(&b, "      - {hash: %q, timestamp: %d}\n", old.Hash, old.Timestamp)
		}
	}
	if err := os.MkdirAll(v.Root(), 0o700); err != nil {
		return fmt.Errorf("draw workflow.yaml: %w", err)
	}
	return replace(filepath.Join(v.Root(), "workflow.yaml"), b.Bytes())
}

// replace writes a view through a temporary file and a rename, unless it is unchanged. It is not
// synced: a view lost in a power failure is drawn again.
func replace(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := atomicfile.Write(path, data, 0o600); err != nil {
		return fmt.Errorf("draw view: %w", err)
	}
	return nil
}
