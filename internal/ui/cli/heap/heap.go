// Package heap sets how much garbage may accumulate before it is collected.
//
// Go collects a small heap after every few megabytes, which costs a command that runs for a few
// milliseconds a tenth of its time: a program that imports this package collects less often from
// the start. Packages are initialized in the order of their paths as far as their imports allow, so
// this one imports nothing beyond os, math and runtime/debug: it comes before the libraries whose
// tables are most of what a start allocates.
package heap

import (
	"math"
	"os"
	"runtime/debug"
)

// What users set in the environment takes precedence.
var percent, limit = os.Getenv("GOGC") == "", os.Getenv("GOMEMLIMIT") == ""

func init() {
	if percent {
		debug.SetGCPercent(400)
	}
	if limit {
		debug.SetMemoryLimit(192 << 20) // only up to here: beyond, as often as necessary
	}
}

// UseDefaults restores Go's default garbage collection, for programs that hold as much memory as a store
// does: near the memory limit the collector would run constantly.
func UseDefaults() {
	if percent {
		debug.SetGCPercent(100)
	}
	if limit {
		debug.SetMemoryLimit(math.MaxInt64)
	}
}
