package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
)

// Instance returns the instance name of a role in a thread, unique in its task: [a-z0-9][a-z0-9-]{0,62}. If
// several roles of a flow would get the same name, they are numbered in name order. In a path or child the name
// includes the path, and ends with the last characters of the thread's id.
func Instance(row store.Thread, def *flow.Definition, role string) string {
	if id := def.ActionID(); id != "" {
		return actionInstance(row, id)
	}
	own, taken := slug(role), map[string]bool{}
	for _, other := range slices.Sorted(maps.Keys(def.Roles)) {
		name := slug(other)
		for n := 2; taken[name]; n++ {
			name = withSuffix(slug(other), fmt.Sprintf("-%d", n))
		}
		if other == role {
			own = name
			break
		}
		taken[name] = true
	}
	if taken[own] {
		own = withSuffix(own, "-2") // a reserved role with the name of a flow's role
	}
	if row.Kind == store.KindRoot || row.Kind == "" {
		return own
	}
	tail := "-" + strings.ToLower(row.ID[max(len(row.ID)-8, 0):])
	if row.Path != nil {
		path := slug(row.Path.ID)
		tail = "-" + path[:min(len(path), 24)] + tail
	}
	return withSuffix(own, tail)
}

// actionInstance returns the instance name of an action: its id, which is unique in the thread
// that planned it. The name of a later try, and of an action that a path or child planned,
// ends with the thread's id too.
func actionInstance(row store.Thread, id string) string {
	if row.Parent != nil && row.Parent.Thread == row.Root && row.Path != nil && row.Path.N < 2 {
		return id
	}
	return withSuffix(id, "-"+strings.ToLower(row.ID[max(len(row.ID)-8, 0):]))
}

// withSuffix returns name with a suffix, cut to the length of an instance name.
func withSuffix(name, suffix string) string {
	return strings.TrimRight(name[:min(len(name), 63-len(suffix))], "-") + suffix
}

// slug returns a role reduced to the characters of instance names, "role" if none remain.
func slug(role string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(role) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			c = '-'
		}
		b.WriteRune(c)
	}
	name := strings.Trim(b.String(), "-")
	if name == "" {
		name = "role"
	}
	return name[:min(len(name), 63)]
}
