package flow

import (
	"maps"
	"slices"

	"github.com/plait-run/plait/internal/flow/schema"
)

// Statuses returns the statuses of role's steps, sorted: those that its schema fixes, those of
// its command's exit codes, and those of calls. A role that fixes none has the statuses in the
// graph. The statuses of a gate are its answers.
func (d *Definition) Statuses(role string) []string {
	if g, ok := d.Gates[role]; ok {
		list := g.Statuses()
		slices.Sort(list)
		return slices.Compact(list)
	}
	r, ok := d.Roles[role]
	if !ok {
		return nil
	}
	var list []string
	open := true
	if r.Frontmatter != nil {
		if root, err := schema.Compile(r.Frontmatter); err == nil {
			list, _, open = schema.Read(root).Statuses()
		}
	}
	list = append(list, r.ExitStatuses()...)
	if open {
		list = append(list, slices.Sorted(maps.Keys(d.Graph[role]))...)
	}
	if r.Flow != "" {
		for _, st := range CallStatuses {
			if _, routed := d.Graph[role][st]; routed || r.Frontmatter == nil {
				list = append(list, st)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// ExitStatuses returns the statuses that the exit codes of the role's own agent mean.
func (r Role) ExitStatuses() []string {
	if r.Agent == nil || r.Agent.Inline == nil {
		return nil
	}
	var list []string
	for _, code := range slices.Sorted(maps.Keys(r.Agent.Inline.Exit)) {
		if st := r.Agent.Inline.Exit[code]; st != Suspend {
			list = append(list, st)
		}
	}
	return list
}
