package place_test

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/plait-run/plait/internal/files/place"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

// reads is a record with one row, which may be anything: whoever has the password can write it.
type reads struct {
	store.Store
	row store.Thread
}

func (r reads) Thread(context.Context, string) (store.Thread, error) { return r.row, nil }
func (r reads) Threads(context.Context, store.ThreadFilter) ([]store.Thread, error) {
	return []store.Thread{r.row}, nil
}
func (r reads) Task(context.Context, string) (store.TaskRows, error) {
	return store.TaskRows{Threads: []store.Thread{r.row}}, nil
}

// TestConfined reads rows that lead elsewhere.
func TestConfined(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const named = "/srv/named"
	for name, x := range map[string]struct {
		row  store.Thread
		tree string // "": refused
	}{
		"a named workspace": {store.Thread{Workspace: "ws:shop", Tree: "ws:shop/.plait/worktrees/ID"},
			dir + "/tasks/shop/ID/.plait/worktrees/ID"},
		"a tree above it":          {store.Thread{Workspace: "ws:shop", Tree: "ws:shop/../OTHER"}, dir + "/tasks/shop/ID"},
		"a directory of the user":  {store.Thread{Workspace: named}, named},
		"a tree in it":             {store.Thread{Workspace: named, Tree: named + "/sub"}, named + "/sub"},
		"another directory":        {store.Thread{Workspace: "/srv/other"}, ""},
		"one above":                {store.Thread{Workspace: "/srv"}, ""},
		"one below":                {store.Thread{Workspace: named + "/sub"}, ""},
		"another way there":        {store.Thread{Workspace: named + "/../named"}, ""},
		"no directory":             {store.Thread{}, ""},
		"a relative one":           {store.Thread{Workspace: "home"}, ""},
		"a bad name":               {store.Thread{Workspace: "ws:../shop"}, ""},
		"the place":                {store.Thread{Workspace: dir}, ""},
		"another task's directory": {store.Thread{Workspace: dir + "/tasks/shop/OTHER"}, ""},
		"its own directory":        {store.Thread{Workspace: dir + "/tasks/shop/ID"}, ""},
		"a tree beside it":         {store.Thread{Workspace: named, Tree: "/srv/other"}, ""},
		"a tree that climbs":       {store.Thread{Workspace: named, Tree: named + "/sub/../../other"}, ""},
		"a strange task":           {store.Thread{Workspace: "ws:shop", Task: "../../home"}, ""},
		"a strange root":           {store.Thread{Workspace: "ws:shop", Root: "/root"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			x.row.ID = "ID"
			if x.row.Task == "" {
				x.row.Task = "ID"
			}
			if x.row.Root == "" {
				x.row.Root = "ID"
			}
			p, err := place.New(place.Config{Dir: dir, Store: reads{mem.New(mem.Config{}), x.row}})
			if err != nil {
				t.Fatal(err)
			}
			s := p.Confined([]string{named})
			row, err := s.Thread(t.Context(), "ID")
			rows, listErr := s.Threads(t.Context(), store.ThreadFilter{})
			all, taskErr := s.Task(t.Context(), "ID")
			if listErr != nil {
				t.Fatal(listErr)
			}
			if x.tree == "" {
				if !errors.Is(err, place.ErrElsewhere) || !errors.Is(taskErr, place.ErrElsewhere) ||
					len(rows)+len(all.Threads) > 0 || row.ID != "" {
					t.Errorf("got %v, %v; %v, %v", row, err, rows, taskErr)
				}
				return
			}
			for _, got := range append(append(rows, all.Threads...), row) {
				if at := cmp.Or(got.Tree, got.Workspace); err != nil || taskErr != nil || at != x.tree {
					t.Errorf("it works in %q, %v, %v; want %q", at, err, taskErr, x.tree)
				}
			}
			if _, err := p.Store().Thread(t.Context(), "ID"); err != nil {
				t.Error(err)
			}
		})
	}
}
