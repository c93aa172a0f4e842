// Package thread gives nodes their meaning: it defines starts, steps, texts and
// the details of steps, and the operations on chains of them.
//
// A thread is a row in the store that points at a moving head:
//
//	row ─head→ state → state → state → start
//	             │ content → artifacts → blobs
//	             │ detail → prompt sent, transcripts
//
// It takes what an agent returned and the current row, and returns the objects
// and the row of one batch, for the caller to commit. Laws:
//
//   - The conversation is the chain: nothing else stores it, and forking copies none.
//   - ancestors[0] is the parent; the rest is a window for paging.
//   - A step is written by one batch: all of it exists, or nothing.
//   - Ids are derived from what they identify, so creating a thing again changes nothing.
//
// The package never runs anything, never decides what comes next, and never
// commits.
package thread

import "strings"

// Reserved roles. The roles of flows cannot have such names, and routing skips them.
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
