package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
)

// labelsOf returns the label of each thread of a task, which is its place in the task: "api",
// "api/develop", "" for the root. A path that is retried gets a number: "api#2".
func labelsOf(threads []store.Thread) map[string]string {
	by := byID(threads)
	labels := make(map[string]string, len(threads))
	for _, t := range threads {
		labels[t.ID] = label(t, by)
	}
	return labels
}

func byID(threads []store.Thread) map[string]store.Thread {
	by := make(map[string]store.Thread, len(threads))
	for _, t := range threads {
		by[t.ID] = t
	}
	return by
}

func label(t store.Thread, by map[string]store.Thread) string {
	var parts []string
	for range by { // edited rows may form a cycle
		if t.Parent == nil {
			break
		}
		own := t.Flow
		if t.Path != nil {
			own = t.Path.ID
			if t.Path.N > 1 {
				own = fmt.Sprintf("%s#%d", own, t.Path.N)
			}
		}
		parts = append(parts, own)
		var ok bool
		if t, ok = by[t.Parent.Thread]; !ok {
			break
		}
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}
