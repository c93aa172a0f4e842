package view

import (
	"context"
	"regexp"

	"github.com/plait-run/plait/internal/record/store"
)

// Names maps threads to the names that users type; see [Reader.Find]. It reads each task once.
type Names struct {
	reader *Reader
	labels map[string]map[string]string // by task, by thread
	roots  map[string]store.Thread
}

// Names returns a Names that has read nothing yet.
func (b *Reader) Names() *Names {
	return &Names{reader: b, labels: map[string]map[string]string{}, roots: map[string]store.Thread{}}
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
	if n.labels[t.Task] == nil {
		threads, err := n.reader.Store.Threads(ctx, store.ThreadFilter{Task: t.Task})
		if err != nil {
			return t.ID
		}
		n.labels[t.Task] = labelsOf(threads)
	}
	if label := n.labels[t.Task][t.ID]; label != "" {
		return root.Short + "/" + label
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

var ulidText = regexp.MustCompile(`\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b`)

// In returns text with thread ids replaced by their names.
func (n *Names) In(ctx context.Context, text string) string {
	return ulidText.ReplaceAllStringFunc(text, func(id string) string { return n.ByID(ctx, id) })
}
