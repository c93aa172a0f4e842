package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/ui/cli"
	"github.com/plait-run/plait/plaitd/postgres"
	"github.com/plait-run/plait/plaitd/river"
)

// A migration is the output of migrate.
type migration struct {
	Store   string `json:"store"`
	From    int    `json:"from"` // version of the schema; 0: there was none
	To      int    `json:"to"`
	Changed bool   `json:"changed"` // or would be, with --dry-run
	Hashed  int64  `json:"hashed"`  // events that were added to the log, or would be
	Queue   bool   `json:"queue"`   // the tables of the workers' queue were changed, or would be
	DryRun  bool   `json:"dryRun"`
	Worker  string `json:"worker,omitempty"` // the role that was granted what a worker needs
}

// migrate returns the verb that creates the tables, or brings them up to date.
func (p place) migrate() cli.Verb {
	var dry bool
	var worker string
	return cli.Verb{
		Use:   "migrate",
		Short: "Create the shared record's tables, or bring them up to date",
		Long: `Create the tables of the shared record in schema plait of the database, or bring them to the version
that this plaitd needs. It is done in one transaction, and only forward: take a backup first. If
several run at once, one does the work. Processes of an older version take no new work from then on. Events of
before the log are then hashed into it, while others go on working. The queue that workers share is in schema
plait_river beside it; nothing in it needs a backup.

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
			m.From, m.To, err = postgres.Schema(ctx, cfg)
			if err == nil {
				m.Hashed, err = postgres.Unhashed(ctx, cfg)
			}
			if err == nil && !dry {
				m.From, m.To, err = postgres.Migrate(ctx, cfg)
			}
			m.Changed = m.From != m.To
			if err != nil {
				return m, nil, err
			}
			if dry {
				m.Queue = river.Outdated(ctx, queueOf(cfg)) != nil
			} else {
				m.Queue, err = river.Migrate(ctx, queueOf(cfg))
			}
			if err == nil && worker != "" && !dry {
				m.Worker, err = worker, errors.Join(postgres.GrantWorker(ctx, cfg, worker),
					river.GrantWorker(ctx, queueOf(cfg), worker))
			}
			return m, func(out io.Writer) { fmt.Fprintln(out, m) }, err
		},
	}
}

func (m migration) String() string {
	rest := ""
	switch {
	case m.Hashed > 0 && m.DryRun:
		rest = fmt.Sprintf("; would hash %s into the log", text.Count(int(m.Hashed), "event"))
	case m.Hashed > 0:
		rest = fmt.Sprintf("; hashed %s into the log", text.Count(int(m.Hashed), "event"))
	}
	switch {
	case m.Queue && m.DryRun:
		rest += "; would bring the workers' queue up to date"
	case m.Queue:
		rest += "; brought the workers' queue up to date"
	}
	if m.Worker != "" {
		rest += "\n" + m.Store + ": role " + m.Worker + " may do what a worker does"
	}
	return m.schema() + rest
}

func (m migration) schema() string {
	switch {
	case !m.Changed && m.Hashed > 0:
		return fmt.Sprintf("%s: the schema has version %d", m.Store, m.To)
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
