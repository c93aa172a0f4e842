package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/ui/cli"
)

// rights are what a role of the server may do with the record.
type rights struct {
	role, database       string
	super, there, create bool // there: the schema exists
	owns, writes, takes  bool // takes: it can delete
}

func rightsOf(ctx context.Context, c *pgx.Conn) (r rights, err error) {
	// The query names no tables: looking one up requires a right to the schema.
	err = c.QueryRow(ctx, `SELECT r.rolname, current_database(), r.rolsuper, n.oid IS NOT NULL,
		has_database_privilege(current_database(), 'CREATE'), coalesce(pg_has_role(n.nspowner, 'USAGE'), false),
		coalesce(has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(t.oid, 'INSERT'), false),
		coalesce(has_table_privilege(t.oid, 'DELETE'), false)
		FROM pg_roles r LEFT JOIN pg_namespace n ON n.nspname = 'plait'
		LEFT JOIN pg_class t ON t.relnamespace = n.oid AND t.relname = 'threads'
		WHERE r.rolname = current_user`).
		Scan(&r.role, &r.database, &r.super, &r.there, &r.create, &r.owns, &r.writes, &r.takes)
	return r, err
}

// examineRole reports what the role of a person's connection may do.
func examineRole(ctx context.Context, c *pgx.Conn) cli.Finding {
	r, err := rightsOf(ctx, c)
	if err != nil {
		return cli.Finding{What: "role", Text: err.Error()}
	}
	return r.finding()
}

func (r rights) finding() cli.Finding {
	good := func(may string) cli.Finding { return cli.Finding{What: "role", OK: true, Text: r.role + " " + may} }
	switch {
	case r.super:
		return cli.Finding{What: "role", Warning: true,
			Text: r.role + " is a superuser: anyone with its password controls the whole server",
			Do:   "name a role in PLAIT_STORE that owns its database, and nothing else"}
	case !r.there && r.create:
		return good("may create the schema of the record")
	case !r.there:
		return cli.Finding{What: "role", Text: r.role + " may not create the schema of the record",
			Do: "name the owner of database " + r.database + " in PLAIT_STORE, or grant CREATE on it"}
	case r.owns:
		return good("owns the record: it may do everything there, migrate too")
	case r.writes && r.takes:
		return good("may write and delete, and not migrate")
	case r.writes:
		return good("may do what a worker does: add to the record, but change or delete no history")
	}
	return cli.Finding{What: "role", Text: r.role + " may not write to the record",
		Do: "run plaitd migrate --worker " + r.role + " as the owner of the record"}
}
