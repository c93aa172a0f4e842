// Command plait runs teams of AI agents as threads that can be verified.
//
// Its input is a flow and a prompt; its output is steps in a record, a task directory and an exit code. The
// record is a file on this machine.
package main

import (
	"os"

	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/ui/cli"
)

// release is the name of a released binary, set by the linker.
var release string

func main() {
	os.Exit(cli.Program{Name: "plait", Release: release, Open: sqlite.OpenHome, OpenHome: sqlite.OpenHome}.Main(os.Args[1:]))
}
