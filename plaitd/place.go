package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/plaitd/postgres"
	"github.com/plait-run/plait/plaitd/s3"
)

// A place is an environment, which says where the record is.
//
//	PLAIT_STORE         postgres://user@host/database, or KEY=VALUE …
//	PLAIT_STORE_FILE    a file that contains it
//	PLAIT_STORE_DIRECT  the same past a pooler in transaction mode; PLAIT_STORE_DIRECT_FILE
//	PLAIT_STORE_CONNS   most connections
//	PLAIT_S3            s3://bucket/prefix?endpoint=…; PLAIT_S3_FILE
//
// A password may be in any of them; or, as for every Postgres program, in PGPASSWORD or ~/.pgpass.
type place struct {
	getenv func(string) string
}

// secret returns the value of a variable, or the contents of the file that NAME_FILE names.
func (p place) secret(name string) (string, error) {
	text, file := p.getenv(name), p.getenv(name+"_FILE")
	switch {
	case text != "" && file != "":
		return "", usage("%s and %s_FILE are both set; unset one", name, name)
	case file == "":
		return text, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", usage("%s_FILE: %w", name, err)
	}
	return strings.TrimSpace(string(data)), nil
}

// config reads all of them. No error repeats what it read.
func (p place) config(ctx context.Context) (postgres.Config, error) {
	var cfg postgres.Config
	var err error
	if cfg.URL, err = p.secret("PLAIT_STORE"); err != nil {
		return cfg, err
	}
	if cfg.URL == "" {
		return cfg, usage("no record: set PLAIT_STORE to postgres://USER@HOST/DATABASE, or PLAIT_STORE_FILE to a file that " +
			"says so")
	}
	if cfg.Direct, err = p.secret("PLAIT_STORE_DIRECT"); err != nil {
		return cfg, err
	}
	for name, text := range map[string]string{"PLAIT_STORE": cfg.URL, "PLAIT_STORE_DIRECT": cfg.Direct} {
		if err := readable(name, text); err != nil {
			return cfg, err
		}
	}
	if n := p.getenv("PLAIT_STORE_CONNS"); n != "" {
		if cfg.Conns, err = strconv.Atoi(n); err != nil || cfg.Conns < postgres.MinConns {
			return cfg, usage("PLAIT_STORE_CONNS: want a number of %d or more", postgres.MinConns)
		}
	}
	bucket, err := p.bucket(ctx)
	if bucket != nil {
		cfg.Bucket = bucket
	}
	return cfg, err
}

// readable refuses a text that does not name a database. It omits the parser's error, which repeats the text,
// with a password that is in the wrong place.
func readable(name, text string) error {
	if text == "" {
		return nil
	}
	if u, err := url.Parse(text); strings.Contains(text, "://") &&
		(err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return usage("%s: want postgres://USER@HOST/DATABASE", name)
	}
	if _, err := pgx.ParseConfig(text); err != nil {
		return usage("%s: it names no database: want postgres://USER@HOST/DATABASE", name)
	}
	return nil
}

// bucket returns the bucket for large objects, nil for none.
func (p place) bucket(ctx context.Context) (*s3.Bucket, error) {
	text, err := p.secret("PLAIT_S3")
	if err != nil || text == "" {
		return nil, err
	}
	cfg, err := s3.Parse(text)
	if err != nil {
		return nil, usage("PLAIT_S3: %w", err)
	}
	return s3.Open(ctx, cfg)
}

// shown returns a database for display, without a password.
func shown(text string) string {
	cfg, err := pgx.ParseConfig(text)
	if err != nil {
		return "a database"
	}
	return fmt.Sprintf("%s at %s:%d as %s", cfg.Database, cmp.Or(cfg.Host, "localhost"), cfg.Port, cfg.User)
}

// usage returns an error that a person fixes by asking differently.
func usage(format string, args ...any) error { return attempt.Usage(format, args...) }
