package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/engine/dispatch/local"
	"github.com/plait-run/plait/internal/ui/cli"
	"github.com/plait-run/plait/plaitd/postgres"
	"github.com/plait-run/plait/plaitd/river"
	"github.com/plait-run/plait/plaitd/temporal"
)

// Engines that workers share, by the names users give them.
const (
	engineRiver    = "river"    // a queue in the database of the record
	engineTemporal = "temporal" // a Temporal server
	engineLocal    = "local"    // none: each worker looks on its own
)

// team returns what workers of the record need.
func (p place) team() *cli.Team {
	return &cli.Team{Engines: []string{engineRiver, engineTemporal, engineLocal}, Open: p.engine, Secrets: p.secrets,
		Servers: p.servers, Guarded: p.guarded}
}

// secrets returns the files that may contain a password or a key of the record, and the directories of sockets
// through which the server asks for none.
func (p place) secrets() []string {
	list := []string{p.getenv("PGPASSFILE"), p.getenv("PGSSLKEY"), p.getenv("PGSERVICEFILE"),
		p.getenv("AWS_SHARED_CREDENTIALS_FILE"),
		p.getenv("AWS_CONFIG_FILE"), p.getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), "/var/run/secrets",
		p.getenv("TEMPORAL_CONFIG_FILE"), p.getenv("TEMPORAL_TLS_CLIENT_KEY_PATH")}
	for _, name := range []string{"PLAIT_STORE", "PLAIT_STORE_DIRECT", "PLAIT_S3"} {
		list = append(list, p.getenv(name+"_FILE"))
		text, err := p.secret(name)
		if text == "" {
			continue
		}
		for _, m := range secretSetting.FindAllStringSubmatch(text, -1) {
			file := m[1]
			if strings.Contains(text, "://") {
				if plain, err := url.QueryUnescape(file); err == nil {
					file = plain
				}
			}
			list = append(list, strings.Trim(file, "'"))
		}
		if cfg, parseErr := pgx.ParseConfig(text); err == nil && parseErr == nil {
			for _, host := range postgres.Hosts(cfg) {
				if filepath.IsAbs(host) {
					list = append(list, host)
				}
			}
		}
	}
	for i := 0; i < len(list) && i < maxSecrets; i++ { // a file may name others
		list = append(list, secretsIn(list[i])...)
	}
	return list
}

// servers returns the hosts of the record's database.
func (p place) servers() (list []string) {
	for _, name := range []string{"PLAIT_STORE", "PLAIT_STORE_DIRECT"} {
		text, err := p.secret(name)
		if err != nil || text == "" {
			continue // what is wrong with it was said when the record was opened
		}
		if cfg, err := pgx.ParseConfig(text); err == nil {
			for _, host := range postgres.Hosts(cfg) {
				if !filepath.IsAbs(host) { // else it is a socket, see secrets
					list = append(list, host)
				}
			}
		}
	}
	return list
}

// Bounds on the files that secrets looks into, in files and bytes.
const (
	maxSecrets    = 100
	maxSecretFile = 1 << 20
)

// secretsIn returns the files with a password or a key that a configuration file names: one of Postgres's services, of
// Amazon's programs, or of Temporal's.
func secretsIn(file string) (list []string) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would block
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	if err != nil {
		return nil
	}
	for _, m := range secretSetting.FindAllSubmatch(text, -1) {
		list = append(list, strings.Trim(string(m[1]), `'"`))
	}
	return list
}

// secretSetting matches the settings of a URL, of KEY=VALUE …, or of a file, that name a file with a password or a
// key.
var secretSetting = regexp.MustCompile(
	`\b(?:passfile|sslkey|servicefile|web_identity_token_file|client_key_path)\s*=\s*('[^']*'|"[^"]*"|[^&\s]+)`)

// guarded returns an error if the server admits clients without password or key.
func (p place) guarded(ctx context.Context) error {
	cfg, err := p.config(ctx)
	if err != nil {
		return err
	}
	open, err := postgres.Unguarded(ctx, cfg)
	if err == nil && open {
		err = fmt.Errorf("%s asks for no password; have pg_hba.conf ask for one", shown(cfg.URL))
	}
	return err
}

// engine opens the engine that all workers of the record share.
func (p place) engine(ctx context.Context, o cli.EngineOptions) (cli.Engine, error) {
	cfg, err := p.config(ctx)
	if err == nil {
		err = bucketless(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	switch o.Name {
	case engineLocal:
		return alone{local.New(local.Config{})}, nil
	case engineTemporal:
		cfg, err := temporal.Environment()
		if err != nil {
			return nil, usage("%w", err)
		}
		cfg.Log, cfg.Prefix = o.Log, p.getenv("PLAIT_TEMPORAL_PREFIX")
		return temporal.New(cfg)
	}
	queue := queueOf(cfg)
	queue.Tasks, queue.Log = o.Tasks, o.Log
	if err := river.Outdated(ctx, queue); err != nil {
		return nil, usage("%w: run plaitd migrate", err)
	}
	return river.Open(ctx, queue)
}

// bucketless returns an error if there is no bucket, but the record uses one: tasks would fail in the middle.
func bucketless(ctx context.Context, cfg postgres.Config) error {
	if cfg.Bucket != nil {
		return nil
	}
	is, err := postgres.InBucket(ctx, cfg)
	if is {
		err = usage("objects of the record are in a bucket: set PLAIT_S3, as wherever the record is used")
	}
	return err
}

// queueOf returns where the queue of a record is: next to it.
func queueOf(cfg postgres.Config) river.Config {
	return river.Config{URL: cmp.Or(cfg.Direct, cfg.URL)}
}

// alone is an engine that is always there.
type alone struct{ *local.Engine }

func (alone) Close() error               { return nil }
func (alone) Ping(context.Context) error { return nil }
