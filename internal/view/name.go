package view

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
)

// Names maps threads to the names that users type; see [Reader.Find]. It reads each task once.
type Names struct {
	reader *Reader
	parts  map[string]map[string]string // by task, by thread
	roots  map[string]store.Thread
}

// Names returns a Names that has read nothing yet.
func (b *Reader) Names() *Names {
	return &Names{reader: b, parts: map[string]map[string]string{}, roots: map[string]store.Thread{}}
}

// Of returns the name of a thread: "k7f2", or "k7f2/api/develop" for a part. If the record cannot
// be read, the name is the id.
func (n *Names) Of(ctx context.Context, t store.Thread) string {
	if t.Short != "" {
		return t.Short
	}
	root, ok := n.roots[t.Task]
	if !ok {
		var err error
		if root, err = n.reader.Store.Thread(ctx, t.Task); err != nil {
			return t.ID
		}
		n.roots[t.Task] = root
	}
	if t.ID == t.Task || root.Short == "" {
		return t.ID
	}
	if n.parts[t.Task] == nil {
		threads, err := n.reader.Store.Threads(ctx, store.ThreadFilter{Task: t.Task})
		if err != nil {
			return t.ID
		}
		n.parts[t.Task] = partNames(threads)
	}
	if part := n.parts[t.Task][t.ID]; part != "" {
		return root.Short + "/" + part
	}
	return t.ID
}

// ByID returns the name of thread id.
func (n *Names) ByID(ctx context.Context, id string) string {
	t, err := n.reader.Store.Thread(ctx, id)
	if err != nil {
		return id
	}
	return n.Of(ctx, t)
}

// In returns text with thread ids replaced by their names.
func (n *Names) In(ctx context.Context, text string) string {
	return nameIDs(text, func(id string) string { return n.ByID(ctx, id) })
}

var ulidText = regexp.MustCompile(`/?\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b`)

// nameIDs returns text with thread ids replaced by what named returns for them. An id in the name of a branch or a
// file is part of that name.
func nameIDs(text string, named func(id string) string) string {
	return ulidText.ReplaceAllStringFunc(text, func(id string) string {
		if id[0] == '/' {
			return id
		}
		return named(id)
	})
}

// nameIDs returns text with the ids of the task's threads replaced by their names.
func (r TaskRecord) nameIDs(text string) string {
	return nameIDs(text, func(id string) string {
		if part := partNames(r.Threads)[id]; part != "" && r.Root.Short != "" {
			return r.Root.Short + "/" + part
		}
		return id
	})
}

// partNames returns what users type, after the name of the task, for each of its parts: the label, with "~1" for
// the part before the newest one of that name; see [Reader.Find].
func partNames(threads []store.Thread) map[string]string {
	labels := labelsOf(threads)
	names := make(map[string]string, len(threads))
	newer := map[string]int{} // parts that a name finds first
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(labels))) {
		label := labels[id]
		if label == "" {
			continue
		}
		names[id] = label
		if _, _, step := CutStep("/" + label); step || newer[label] > 0 {
			names[id] += fmt.Sprintf("~%d", newer[label])
		}
		newer[label]++
		if id, _, again := strings.Cut(label, "#"); again && !strings.Contains(label, "/") {
			newer[id]++ // a path that was retried is also found without its number
		}
	}
	return names
}
