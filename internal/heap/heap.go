// Package heap says how much garbage the program makes before it is collected.
//
// Go collects a small heap after every few megabytes, which costs a command that runs for some
// milliseconds a tenth of its time: a program that imports this package collects less often from
// its start. Packages are initialised in the order of their paths as far as their imports allow, so
// this one imports nothing but the runtime: it comes before the libraries whose tables are most of
// what a start allocates.
package heap

import (
	"math"
	"os"
	"runtime/debug"
)

// What people set in the environment holds.
var percent, limit = os.Getenv("GOGC") == "", os.Getenv("GOMEMLIMIT") == ""

func init() {
	if percent {
		debug.SetGCPercent(400)
	}
	if limit {
		debug.SetMemoryLimit(192 << 20) // up to here only: from here on as often as it takes
	}
}

// AsEver has garbage collected as Go does by itself, for what holds as much as a store has: near
// its bound the collector would do nothing but run.
func AsEver() {
	if percent {
		debug.SetGCPercent(100)
	}
	if limit {
		debug.SetMemoryLimit(math.MaxInt64)
	}
}
