package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/ui/cli"
	"github.com/plait-run/plait/plaitd/postgres"
	"github.com/plait-run/plait/plaitd/s3"
)

const (
	oldestServer = 140000           // version 14, in server_version_num's form
	maxSkew      = 2 * time.Second  // between the clocks of this machine and the server
	askWait      = 20 * time.Second // for all of doctor's requests to a server, or to a bucket
	hearWait     = 5 * time.Second  // for a notification to arrive
	defaultConns = 10
)

// doctor examines the server and the bucket, once each; a fault in one hides none in the other.
func (p place) doctor(ctx context.Context, _ string) []cli.Finding {
	cfg, err := p.config(ctx)
	if err != nil {
		return []cli.Finding{{What: "store", Text: err.Error(), Do: "see plaitd.md"}}
	}
	return append(p.examineServer(ctx, cfg), p.examineBucket(ctx, cfg)...)
}

func (p place) examineServer(ctx context.Context, cfg postgres.Config) []cli.Finding {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	at, err := pgx.ParseConfig(cfg.URL)
	var c *pgx.Conn
	if err == nil {
		at.DefaultQueryExecMode = pgx.QueryExecModeExec // there may be a pooler, which has no named statements
		c, err = pgx.ConnectConfig(ctx, at)
	}
	if err != nil {
		return []cli.Finding{{What: "server", Text: err.Error(), Do: "check PLAIT_STORE, the network and pg_hba.conf"}}
	}
	defer c.Close(context.WithoutCancel(ctx))
	s, err := settingsOf(ctx, c)
	if err != nil {
		return []cli.Finding{{What: "server", Text: err.Error()}}
	}
	found, now, err := postgres.Schema(ctx, cfg)
	schema := cli.Finding{What: "schema", OK: err == nil && found == now, Text: fmt.Sprintf("version %d", found)}
	switch {
	case err != nil:
		schema.Text = err.Error()
	case found != now:
		schema.Text, schema.Do = fmt.Sprintf("version %d, this plaitd needs %d", found, now), "run plaitd migrate"
	}
	all := append(s.findings(shown(cfg.URL), cmp.Or(cfg.Conns, defaultConns)), schema, examineRole(ctx, c))
	if cfg.Direct != "" {
		all = append(all, examineDirect(ctx, c, cfg.Direct))
	}
	return all
}

// examineDirect checks that a notification sent on one connection is received past the pooler.
func examineDirect(ctx context.Context, c *pgx.Conn, direct string) cli.Finding {
	f := cli.Finding{What: "direct", Do: "set PLAIT_STORE_DIRECT to the address of the server itself, and to the same " +
		"database"}
	ctx, cancel := context.WithTimeout(ctx, hearWait)
	defer cancel()
	listener, err := pgx.Connect(ctx, direct)
	if err != nil {
		f.Text = err.Error()
		return f
	}
	defer listener.Close(context.WithoutCancel(ctx))
	const channel = "plait_doctor"
	if _, err = listener.Exec(ctx, "LISTEN "+channel); err == nil {
		_, err = c.Exec(ctx, "NOTIFY "+channel)
	}
	if err == nil {
		_, err = listener.WaitForNotification(ctx)
	}
	if err != nil {
		f.Text = "notifications do not arrive at " + shown(direct) + ": " + err.Error()
		return f
	}
	return cli.Finding{What: "direct", OK: true, Text: "notifications arrive at " + shown(direct)}
}

// settings are the settings of a server that matter here.
type settings struct {
	version                             int
	name                                string
	syncCommit, fsync, pages, standbys  string
	connections, reserved, currentlyUse int
	replica                             bool
	skew                                time.Duration
}

func settingsOf(ctx context.Context, c *pgx.Conn) (s settings, err error) {
	var now time.Time
	before := time.Now()
	err = c.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'),
		current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),
		current_setting('synchronous_standby_names'), current_setting('max_connections')::int,
		current_setting('superuser_reserved_connections')::int,
		(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
		pg_is_in_recovery(), clock_timestamp()`).Scan(&s.version, &s.name, &s.syncCommit, &s.fsync, &s.pages, &s.standbys,
		&s.connections, &s.reserved, &s.currentlyUse, &s.replica, &now)
	if err != nil {
		return s, fmt.Errorf("read settings: %w", err)
	}
	middle := before.Add(time.Since(before) / 2)
	s.skew = now.Sub(middle).Round(time.Millisecond)
	return s, nil
}

// findings judges the settings of a server from which this program takes up to conns connections.
func (s settings) findings(where string, conns int) []cli.Finding {
	server := cli.Finding{What: "server", OK: true, Text: "Postgres " + s.name + ", " + where}
	switch {
	case s.version < oldestServer:
		server.OK, server.Do = false, "Plait needs Postgres 14 or newer"
	case s.replica:
		server.OK, server.Text, server.Do = false, server.Text+": it is a replica, which takes no writes",
			"name the primary in PLAIT_STORE"
	}
	durable := cli.Finding{What: "durability", OK: true, Text: "a commit is on disk when it is reported"}
	for _, x := range []struct{ name, value string }{
		{"synchronous_commit", s.syncCommit}, {"fsync", s.fsync}, {"full_page_writes", s.pages},
	} {
		if x.value == "off" {
			durable = cli.Finding{What: "durability", Text: x.name +
				" is off: what was reported done can be lost, or damaged, in a crash",
				Do: "set " + x.name + " = on"}
		}
	}
	standby := cli.Finding{What: "replication", OK: true, Text: "commits wait for " + s.standbys}
	if s.standbys == "" {
		standby = cli.Finding{What: "replication", Warning: true,
			Text: "synchronous_standby_names is empty: a failover to another server can lose the newest commits",
			Do:   "set it if a standby may take over; a managed service may replicate in another way"}
	}
	clock := cli.Finding{What: "clocks", OK: true, Text: "differ by " + s.skew.String()}
	if s.skew.Abs() > maxSkew { // too much for what the answer took to count
		clock.Text = "differ by " + s.skew.Round(time.Second).String()
		clock.OK, clock.Warning, clock.Do = false, true, "have NTP set both: times in the record are those of the machine "+
			"that wrote them"
	}
	free := s.connections - s.reserved
	used := cli.Finding{What: "connections", OK: true,
		Text: strconv.Itoa(conns) + " at most for each plaitd, of " + strconv.Itoa(free) + " (" +
			strconv.Itoa(s.currentlyUse) + " in use)"}
	if conns*3 > free {
		used.OK, used.Warning, used.Do = false, true,
			"raise max_connections, lower PLAIT_STORE_CONNS, or put a pooler in front: see plaitd.md"
	}
	return []cli.Finding{server, durable, standby, clock, used}
}

// examineBucket tries all that a store does with a bucket.
func (p place) examineBucket(ctx context.Context, cfg postgres.Config) []cli.Finding {
	b, err := p.bucket(ctx)
	if err != nil {
		return []cli.Finding{{What: "bucket", Text: err.Error(), Do: "check PLAIT_S3"}}
	}
	if b == nil {
		ctx, cancel := context.WithTimeout(ctx, askWait)
		defer cancel()
		if is, err := postgres.InBucket(ctx, cfg); is && err == nil {
			return []cli.Finding{{What: "bucket", Text: "none, but objects of the record are in one", Do: "set PLAIT_S3"}}
		}
		return []cli.Finding{{What: "bucket", OK: true, Text: "none: large objects are kept in the database"}}
	}
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	if err := b.Check(ctx); err != nil {
		return []cli.Finding{{What: "bucket", Text: err.Error(),
			Do: "check PLAIT_S3, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and what the key may do"}}
	}
	return append([]cli.Finding{{What: "bucket", OK: true,
		Text: b.String() + ": an object can be put, read, listed and deleted"}},
		examineVersions(ctx, b)...)
}

// examineVersions says what happens to deleted objects. If the bucket does not say, there is nothing to report.
func examineVersions(ctx context.Context, b *s3.Bucket) []cli.Finding {
	kept, err := b.Versions(ctx)
	switch {
	case err != nil:
		return nil // not everyone who may use a bucket may ask, and not every server has versions
	case kept == s3.VersionsKept:
		return []cli.Finding{{What: "versions", Warning: true,
			Text: "the bucket keeps old versions forever: what gc deletes stays, and costs money",
			Do:   "add a lifecycle rule that ends them once no backup of the database is as old: see bucket.md"}}
	case kept == s3.VersionsExpire:
		return []cli.Finding{{What: "versions", OK: true, Text: "what gc deletes is kept until a lifecycle rule ends it"}}
	}
	return []cli.Finding{{What: "versions", OK: true,
		Text: "what gc deletes is gone immediately: mind the order of backups"}}
}
