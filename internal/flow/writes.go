package flow

import (
	"maps"
	"slices"
)

// Writes reports whether one of the roles, or of a flow that they call, can change files. called
// returns a flow of the same bundle, or nil.
func (d *Definition) Writes(roles []string, called func(name string) *Definition) bool {
	return d.writes(roles, called, map[string]bool{})
}

func (d *Definition) writes(roles []string, called func(string) *Definition, seen map[string]bool) bool {
	for _, name := range roles {
		role := d.Roles[name]
		if role.Flow == "" {
			if role.Access.Writes() {
				return true
			}
			continue
		}
		if seen[role.Flow] {
			continue
		}
		seen[role.Flow] = true
		def := called(role.Flow)
		if def != nil && def.writes(slices.Collect(maps.Keys(def.Roles)), called, seen) {
			return true
		}
	}
	return false
}
