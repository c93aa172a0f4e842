package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/plait-run/plait/internal/cli"
	"github.com/plait-run/plait/plaitd/postgres"
)

// A migration is what migrate prints.
type migration struct {
	Store   string `json:"store"`
	From    int    `json:"from"` // version of the schema, 0: there was none
	To      int    `json:"to"`
	Changed bool   `json:"changed"` // or would be, with --dry-run
	DryRun  bool   `json:"dryRun"`
	Worker  string `json:"worker,omitempty"` // the role that was granted what a worker needs
}

// migrate is the verb that makes the tables, and brings them up to date.
func (p place) migrate() cli.Verb {
	var dry bool
	var worker string
	return cli.Verb{
		Use:   "migrate",
		Short: "Create the shared record's tables, or bring them up to date",
		Long: `Create the tables of the shared record in schema plait of the database, or bring them to the version
that this plaitd needs. It is done in one transaction, and only forward: take a backup first. Of several
that migrate at once, one does it. Processes of an older version take no new work from then on.

With --worker ROLE a role of the server that can log in is granted what plaitd worker needs and no more:
it can add to the record, and cannot delete, change an event, or change a table. Grant again after each
migration.`,
		Example: `  plaitd migrate --dry-run
  plaitd migrate
  plaitd migrate --worker plait_worker`,
		Flags: func(f *pflag.FlagSet) {
			f.BoolVar(&dry, "dry-run", false, "only say what would be done")
			f.StringVar(&worker, "worker", "", "grant this role what a worker needs")
		},
		Run: func(ctx context.Context, _ string) (any, func(io.Writer), error) {
			cfg, err := p.config(ctx)
			if err != nil {
				return nil, nil, err
			}
			m := migration{Store: shown(cfg.URL), DryRun: dry}
			if dry {
				m.From, m.To, err = postgres.Schema(ctx, cfg)
			} else {
				m.From, m.To, err = postgres.Migrate(ctx, cfg)
			}
			m.Changed = m.From != m.To
			if err == nil && worker != "" && !dry {
				m.Worker, err = worker, postgres.GrantWorker(ctx, cfg, worker)
			}
			return m, func(out io.Writer) { fmt.Fprintln(out, m) }, err
		},
	}
}

func (m migration) String() string {
	if m.Worker != "" {
		return m.schema() + "\n" + m.Store + ": role " + m.Worker + " may do what a worker does"
	}
	return m.schema()
}

func (m migration) schema() string {
	switch {
	case !m.Changed:
		return fmt.Sprintf("%s: the schema has version %d, nothing to do", m.Store, m.To)
	case m.DryRun && m.From == 0:
		return fmt.Sprintf("%s: would create the schema, version %d", m.Store, m.To)
	case m.DryRun:
		return fmt.Sprintf("%s: would bring the schema from version %d to %d", m.Store, m.From, m.To)
	case m.From == 0:
		return fmt.Sprintf("%s: created the schema, version %d", m.Store, m.To)
	}
	return fmt.Sprintf("%s: brought the schema from version %d to %d", m.Store, m.From, m.To)
}
