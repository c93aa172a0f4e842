// Package thread gives nodes their meaning: what a start, a step, a text and
// the detail of a step are, and what can be done with a chain of them.
//
// A thread is a row in the store that points at a moving head:
//
//	row ─head→ state → state → state → start
//	             │ content → artifacts → blobs
//	             │ detail → prompt sent, transcripts
//
// In go what an agent handed back and the row as it is; out come the objects
// and the row of one batch, for the caller to commit. Laws:
//
//   - The conversation is the chain: nothing else stores it, forking writes none.
//   - ancestors[0] is the parent; the rest is a window for paging.
//   - A step is made by one batch; before it nothing exists, after it it does.
//   - Ids are derived from what they stand for, so making a thing twice makes it once.
//
// The package never runs anything, never decides what comes next, and never
// commits.
package thread

import "strings"

// Reserved roles. Flows cannot name roles like these, and routing skips them.
const (
	RoleEnd     = "__end__"
	RoleInput   = "__input__"
	RoleCompact = "__compact__"
	RoleJoin    = "__join__" // of a plan's actions; the only one that is routed
)

// Window is the maximum length of ancestors: the parent and ten more (seed 001).
const Window = 11

// Routed reports whether routing considers the steps of role: those of a flow's own roles, and
// the join of a plan's actions.
func Routed(role string) bool {
	reserved := len(role) > 4 && strings.HasPrefix(role, "__") && strings.HasSuffix(role, "__")
	return !reserved || role == RoleJoin
}
