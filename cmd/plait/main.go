// Command plait runs teams of AI agents as threads that can be verified.
//
// In go a flow and a prompt; out come steps on a record, a task directory and an exit code. The record is a
// file of this machine.
package main

import (
	"os"

	"github.com/plait-run/plait/internal/cli"
	"github.com/plait-run/plait/internal/store/sqlite"
)

// release is what a released binary is called: the linker sets it.
var release string

func main() {
	os.Exit(cli.Program{Name: "plait", Release: release, Open: sqlite.OpenHome, OpenHome: sqlite.OpenHome}.Main(os.Args[1:]))
}
