package thread

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
)

// Views draws the index as files for people and watchers:
//
//	bundles/<hash>/threads.json             active threads, by id
//	bundles/<hash>/history/YYYY-MM-DD.jsonl threads that ended that day (UTC)
//	workflow.yaml                           the registry
//
// They are drawn from the store and can be deleted; only verify reads them.
type Views struct {
	Dir   string // PLAIT_HOME
	Index store.Index
}

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

// Draw redraws the two views of one bundle from the store.
func (v Views) Draw(ctx context.Context, bundle dag.Hash) error {
	rows, err := v.Index.Threads(ctx, store.ThreadFilter{Bundle: bundle})
	if err != nil {
		return fmt.Errorf("draw views of %s: %w", bundle.Short(), err)
	}
	active := make(map[string]ActiveView)
	days := make(map[string][]EndedView)
	for _, t := range rows {
		if !t.Ended() {
			active[t.ID] = ActiveView{t.Head, t.Start, t.UpdatedAt}
			continue
		}
		day := time.UnixMilli(t.EndedAt).UTC().Format(time.DateOnly)
		days[day] = append(days[day], EndedView{t.ID, t.Head, t.Start, t.EndedAt})
	}
	dir := filepath.Join(v.Dir, "bundles", bundle.String())
	if len(rows) == 0 {
		return os.RemoveAll(dir)
	}
	history := filepath.Join(dir, "history")
	if err := os.MkdirAll(history, 0o700); err != nil {
		return fmt.Errorf("draw views of %s: %w", bundle.Short(), err)
	}
	text, err := json.MarshalIndent(active, "", "  ")
	if err != nil {
		return err
	}
	err = replace(filepath.Join(dir, "threads.json"), append(text, '\n'))
	for day, ended := range days {
		slices.SortFunc(ended, func(a, b EndedView) int {
			return cmp.Or(cmp.Compare(a.CompletedAt, b.CompletedAt), cmp.Compare(a.ThreadID, b.ThreadID))
		})
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		for _, e := range ended {
			err = errors.Join(err, enc.Encode(e))
		}
		err = errors.Join(err, replace(filepath.Join(history, day+".jsonl"), buf.Bytes()))
	}
	// A day whose threads were all removed has no file.
	files, _ := os.ReadDir(history)
	for _, f := range files {
		day, ok := strings.CutSuffix(f.Name(), ".jsonl")
		if _, live := days[day]; ok && !live {
			err = errors.Join(err, os.Remove(filepath.Join(history, f.Name())))
		}
	}
	return err
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
	return replace(filepath.Join(v.Dir, "workflow.yaml"), b.Bytes())
}

// replace writes a view by writing anew and renaming, unless it is the same.
// It is not synced: a view lost with the power is drawn again.
func replace(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".view-*")
	if err != nil {
		return fmt.Errorf("draw view: %w", err)
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("draw view: %w", err)
	}
	return nil
}
