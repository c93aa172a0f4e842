// Command plaitd is plait on a record that several machines share: rows, events and small objects in
// Postgres, large objects in a bucket or in Postgres too.
//
// It has the verbs of plait, reads from the environment where the record is, and has the same output and
// exit codes. Secrets are read from the environment or from files, never from arguments, and are never
// repeated.
package main

import (
	"context"
	"os"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/ui/cli"
)

// release is the name of a released binary: the linker sets it.
var release string

func main() {
	os.Exit(program(os.Getenv).Main(os.Args[1:]))
}

// program returns plaitd in an environment.
func program(getenv func(string) string) cli.Program {
	p, m := place{getenv: getenv}, newMetered()
	team := p.team()
	team.Metrics = m.serve
	return cli.Program{
		Name: "plaitd", Release: release,
		Open: func(ctx context.Context, _ string) (store.Store, error) {
			cfg, err := p.config(ctx)
			if err != nil {
				return nil, err
			}
			return m.open(ctx, cfg)
		},
		OpenHome: sqlite.OpenHome,
		Verbs:    []cli.Verb{p.migrate()},
		Without:  []string{"demo"},
		Doctor:   p.doctor,
		Team:     team,
		Withheld: []string{"PLAIT_", "PG", "AWS_", "TEMPORAL_"},
		Exposed:  "could read the password of the shared record, and so approve or change anything in it",
	}
}
