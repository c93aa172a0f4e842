package main

import (
	"bytes"
	"crypto/rand"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
	"github.com/plait-run/plait/plaitd/s3/s3test"
)

// looks prints what an agent is given, and leaves it in an artifact for the bucket too.
const looks = `version: 1
name: looks
roles:
  one: {description: looks, agent: {kind: command, command: [sh, -c, 'tr "\0" "\n" </proc/self/environ; { env; head -c 400000 /dev/zero; } > $PLAIT_ARTIFACTS/big; sleep 1']}}
graph:
  $START: {new: {role: one, prompt: "{{ prompt }}"}}
  one: {done: {role: $END}}
`

// TestCanaries runs a task with the secrets of a shared record in the environment, and looks for them where they must
// not be: in output and logs, in the list of processes, in this machine's home and task directories, in the tables of
// the record and in its bucket, and in an export.
func TestCanaries(t *testing.T) {
	t.Parallel()
	server, bucket := pgtest.Shared(t), s3test.Start(t)
	s3test.Login()
	db := server.Database(t)
	at, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := at.User.Password()
	secrets := map[string]string{"the password": password, "the bucket's key": s3test.Secret}
	h := newHost(t, db)
	h.env = append(h.env, bucketEnv(bucket, "")...)
	for _, name := range []string{"PGPASSWORD", "PGPASSFILE", "PGSSLPASSWORD", "AWS_SESSION_TOKEN", "PLAIT_STORE_DIRECT",
		"MY_TOKEN"} {
		secrets[name] = "canary-" + rand.Text()
		value := secrets[name]
		switch name {
		case "PLAIT_STORE_DIRECT":
			value = strings.Replace(db, "sslmode", "application_name="+value+"&sslmode", 1)
		case "PGPASSFILE":
			value = filepath.Join(h.home, "..", value)
		}
		h.env = append(h.env, name+"="+value)
	}
	places := 0
	look := func(where string, text []byte) {
		t.Helper()
		places++
		for what, secret := range secrets {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s holds %s", where, what)
			}
		}
	}
	h.write("looks.yaml", looks)
	look("migrate", []byte(h.run(0, "migrate")))
	cmd := h.command("run", "looks.yaml", "-p", "go", "--unsafe-agents", "--verbose", "--record")
	look("run", housetest.RunWatched(t, cmd, func(line []byte) { look("the list of processes", line) }))
	list, _ := h.data(0, "ls", "--all")["tasks"].([]any)
	id, _ := list[0].(map[string]any)["id"].(string)
	copied := filepath.Join(t.TempDir(), "copy")
	for _, args := range [][]string{{"show", id}, {"show", id, "--json"}, {"verify"}, {"doctor"}, {"export", copied},
		{"gate", "list", "--all"}} {
		said, err := h.command(args...).CombinedOutput()
		if args[0] != "doctor" && err != nil { // which complains about replication
			t.Errorf("%v: %v: %s", args, err, said)
		}
		look(args[0], said)
	}
	for _, dir := range []string{h.home, h.work, copied} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			look(path, data)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	look("the record", []byte(everything(t, db)))
	b := bucket.Bucket("")
	record, err := postgres.Open(t.Context(), postgres.Config{URL: db, Bucket: b})
	if err != nil {
		t.Fatal(err)
	}
	defer record.Close()
	for e, err := range record.List(t.Context()) { // rows have them packed
		if err != nil {
			t.Fatal(err)
		}
		o, err := record.Get(t.Context(), e.Hash)
		if err != nil {
			t.Fatal(err)
		}
		look("object "+e.Hash.String(), o.Data)
	}
	for _, key := range bucket.Keys() {
		r, err := b.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		var data bytes.Buffer
		data.ReadFrom(r)
		r.Close()
		look("the bucket", data.Bytes())
	}
	if len(bucket.Keys()) == 0 {
		t.Error("nothing lies in the bucket")
	}
	soak.Figure(t, "%d secrets of a shared record; none in any of %d places looked at", len(secrets), places)
}

// everything returns the contents of a record's tables as text: bytes as they are.
func everything(t *testing.T, db string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	var all strings.Builder
	tables := map[string]string{
		"objects": "encode(coalesce(body, ''), 'escape')", "chunks": "encode(data, 'escape')",
		"events":  "x::text || encode(payload, 'escape')",
		"threads": "x::text || encode(row, 'escape')", "attempts": "x::text || encode(row, 'escape')",
		"handles": "x::text", "leases": "x::text", "uploads": "x::text",
	}
	for table, what := range tables {
		rows, err := c.Query(t.Context(), "SELECT "+what+" FROM plait."+table+" x")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				t.Fatal(err)
			}
			all.WriteString(text + "\n")
		}
		if rows.Err() != nil {
			t.Fatal(table, rows.Err())
		}
	}
	if all.Len() == 0 {
		t.Error("the record holds nothing")
	}
	return all.String()
}
