package view_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// named gives the root of r a short name, and returns a reader of r.
func (r *record) named(root *line, short string) *view.Reader {
	row := root.row
	row.Short = short
	r.commit(store.Batch{Threads: []store.ThreadChange{{Row: row, From: root.row.State()}}})
	root.row = row
	return r.book()
}

func TestFind(t *testing.T) {
	r, root := newRecord(t)
	b := r.named(root, "k7f2")
	r.step(root, thread.Draft{Role: "preparer", Text: "ready"})
	child := r.call(root, "developer")
	r.step(child, thread.Draft{Role: "planner", Text: "a plan"})
	r.step(root, thread.Draft{Role: "developer", Text: "built", ChildThread: r.end(child)})
	api := r.path(root, "api")
	digger := r.call(api, "digger")
	again := r.path(root, "api")
	older := r.begin(nil, store.Thread{ID: "01J90000000000000000000000", Task: "01J90000000000000000000000",
		Kind: store.KindRoot, Status: store.Completed, Start: root.row.Start, Head: root.row.Start, Workspace: workspace,
		Short: "01ka"}, nil)
	for _, c := range []struct {
		typed, want, step string
	}{
		{"k7f2", root.row.ID, ""}, {"K7F2", root.row.ID, ""}, {root.row.ID, root.row.ID, ""},
		{"01ka000000", root.row.ID, ""}, {"last", root.row.ID, ""}, {"@last", root.row.ID, ""}, {"last~0", root.row.ID, ""},
		{"last~1", older.row.ID, ""}, {"k7f2/3", root.row.ID, "3"}, {"last/0", root.row.ID, "0"},
		{"k7f2/api", again.row.ID, ""}, {"k7f2/api~1", api.row.ID, ""}, {"k7f2/api/2", again.row.ID, "2"},
		{"k7f2/developer-flow", child.row.ID, ""}, {"k7f2/api/digger-flow", digger.row.ID, ""},
		{"k7f2/digger-flow", digger.row.ID, ""}, {"k7f2/developer", child.row.ID, ""},
		{"k7f2/developer/1", child.row.ID, "1"},
		{"k7f2/digger", digger.row.ID, ""}, {"k7f2/api/digger", digger.row.ID, ""}, {digger.row.ID, digger.row.ID, ""},
		{"01ka", older.row.ID, ""}, // a short name takes precedence over the beginning of an id
	} {
		row, step, err := b.Find(t.Context(), c.typed)
		if err != nil || row.ID != c.want || step != c.step {
			t.Errorf("%s: got %s step %q, %v; want %s step %q", c.typed, row.ID, step, err, c.want, c.step)
		}
	}
	outer := r.path(root, "two")
	deep := r.path(outer, "api") // newer than the one at the top
	for typed, want := range map[string]string{"k7f2/api": again.row.ID, "k7f2/api~1": api.row.ID,
		"k7f2/api~2": deep.row.ID, "k7f2/two/api": deep.row.ID} {
		if row, _, err := b.Find(t.Context(), typed); err != nil || row.ID != want {
			t.Errorf("%s: got %s, %v; want %s", typed, row.ID, err, want)
		}
	}
	for _, typed := range []string{
		"", "/", "k7f", "k7f2/", "k7f2/nobody", "k7f2/preparer", "k7f2/digger~1", "k7f2/developer-flow/digger", "k7f2/api~3",
		"last~2", "last~x", "last~-1", "01K", "k7f2//3", "~1", "/3",
	} {
		if row, _, err := b.Find(t.Context(), typed); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%q: got %s, %v; want nothing", typed, row.ID, err)
		}
	}
	r.call(outer, "digger")
	r.call(outer, "digger")
	r.path(root, "7")
	rows, err := r.store.Threads(t.Context(), store.ThreadFilter{Task: root.row.ID})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		name := b.Names().Of(t.Context(), row)
		if found, _, err := b.Find(t.Context(), name); err != nil || found.ID != row.ID {
			t.Errorf("%s has the name %s, which finds %s, %v", row.ID, name, found.ID, err)
		}
	}
	at := "in " + child.row.ID + ", plait/" + root.row.ID + "/y, .plait/tasks/" + root.row.ID + "/final.md"
	if got, want := b.Names().In(t.Context(), at), strings.Replace(at, child.row.ID, "k7f2/developer-flow",
		1); got != want {
		t.Errorf("ids become %q, want %q", got, want)
	}
}
