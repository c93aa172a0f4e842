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

// Reserved roles. Flows may not name roles like these; routing looks past them.
const (
	RoleEnd     = "__end__"
	RoleInput   = "__input__"
	RoleCompact = "__compact__"
	RoleJoin    = "__join__" // of a plan's actions; it alone is routed
)

// Window is the most entries of ancestors: the parent and ten more (seed 001).
const Window = 11

// Routed reports whether routing looks at the steps of role: at those of a flow's own roles,
// and at the join of a plan's actions.
func Routed(role string) bool {
	reserved := len(role) > 4 && strings.HasPrefix(role, "__") && strings.HasSuffix(role, "__")
	return !reserved || role == RoleJoin
}
