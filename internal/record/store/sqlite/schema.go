package sqlite

import (
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/plait-run/plait/internal/record/store"
)

// applicationID marks a database as ours: "plai".
const applicationID = 0x706c6169

// migrations are run forward from the version found, all in one transaction.
// A script that has been released is never changed; a change is a new script.
var migrations = []string{schema1, schema2, schema3, schema4, schema5, schema6, schema7, schema8, schema9, schema10}

// schema1 keeps what is small and often read (objects) apart from what is large
// and rarely read (bodies): listing and sweeping never touch bytes, and a put
// that only refreshes the time rewrites no body. Hashes are 32 bytes, NULL
// where a row names none. Times are Unix milliseconds.
const schema1 = `
CREATE TABLE objects (
	hash BLOB PRIMARY KEY,
	kind INTEGER NOT NULL,   -- 0 blob, 1 node
	size INTEGER NOT NULL,
	put  INTEGER NOT NULL,
	body INTEGER             -- id in bodies; NULL: a loose file
) STRICT, WITHOUT ROWID;

CREATE TABLE bodies (
	id   INTEGER PRIMARY KEY,
	data BLOB NOT NULL
) STRICT;

CREATE TABLE pins (
	pin  TEXT NOT NULL,
	hash BLOB NOT NULL,
	PRIMARY KEY (pin, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX pins_hash ON pins(hash);

CREATE TABLE threads (
	id        TEXT PRIMARY KEY,
	task      TEXT NOT NULL,
	root      TEXT NOT NULL,
	kind      TEXT NOT NULL,
	bundle    BLOB,
	flow      TEXT NOT NULL,
	start     BLOB,
	head      BLOB,
	status    TEXT NOT NULL,
	wanted    TEXT NOT NULL,
	inflight  TEXT NOT NULL,
	tree      TEXT NOT NULL,
	workspace TEXT NOT NULL,
	steps     INTEGER NOT NULL,
	created   INTEGER NOT NULL,
	updated   INTEGER NOT NULL,
	ended     INTEGER NOT NULL,
	decision  BLOB,
	options   BLOB,
	links     BLOB             -- JSON: reason, parent, path, forkedFrom
) STRICT, WITHOUT ROWID;
CREATE INDEX threads_task ON threads(task);
CREATE INDEX threads_status ON threads(status);
CREATE INDEX threads_bundle ON threads(bundle);
CREATE INDEX threads_workspace ON threads(workspace);

CREATE TABLE attempts (
	id         TEXT PRIMARY KEY,
	thread     TEXT NOT NULL,
	origin     BLOB,           -- the head it starts at
	role       TEXT NOT NULL,
	n          INTEGER NOT NULL,
	agent      TEXT NOT NULL,
	instance   TEXT NOT NULL,
	prompt     BLOB,
	status     TEXT NOT NULL,
	failure    BLOB,           -- JSON
	session    TEXT NOT NULL,
	pid        INTEGER NOT NULL,
	pidstart   INTEGER NOT NULL,
	tag        TEXT NOT NULL,
	started    INTEGER NOT NULL,
	ended      INTEGER NOT NULL,
	input      INTEGER NOT NULL,
	cached     INTEGER NOT NULL,
	output     INTEGER NOT NULL,
	reasoning  INTEGER NOT NULL,
	cost       INTEGER NOT NULL,
	transcript BLOB,
	stderr     BLOB,
	kept       BLOB            -- JSON: pins
) STRICT, WITHOUT ROWID;
CREATE INDEX attempts_thread ON attempts(thread, n);

CREATE TABLE gates (
	id        TEXT PRIMARY KEY,
	kind      TEXT NOT NULL,
	state     TEXT NOT NULL,
	source    TEXT NOT NULL,
	task      TEXT NOT NULL,
	thread    TEXT NOT NULL,
	node      TEXT NOT NULL,
	instance  TEXT NOT NULL,
	attempt   TEXT NOT NULL,
	origin    BLOB,            -- the head it was opened at
	question  TEXT NOT NULL,
	options   BLOB,            -- JSON
	action    BLOB,
	digest    BLOB,
	grantee   TEXT NOT NULL,   -- once, session
	opened    INTEGER NOT NULL,
	expires   INTEGER NOT NULL,
	ontimeout TEXT NOT NULL,
	answered  INTEGER NOT NULL,
	author    TEXT NOT NULL,
	via       TEXT NOT NULL,
	answer    TEXT NOT NULL,
	used      INTEGER NOT NULL,
	diff      BLOB,
	ref       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX gates_task ON gates(task);
CREATE INDEX gates_state ON gates(state);

CREATE TABLE flows (
	name    TEXT PRIMARY KEY,
	hash    BLOB NOT NULL,
	changed INTEGER NOT NULL,
	history BLOB             -- JSON
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
	pos      INTEGER PRIMARY KEY,
	seq      INTEGER NOT NULL,
	ts       INTEGER NOT NULL,
	type     TEXT NOT NULL,
	task     TEXT NOT NULL,
	thread   TEXT NOT NULL,
	instance TEXT NOT NULL,
	attempt  TEXT NOT NULL,
	payload  BLOB
) STRICT;

-- tasks: where a task's events lie, and how many it has had. An index on the task
-- would cost every commit a page of its own, a third of all that a step writes;
-- reading the events of one task skips those of others between its first and last.
CREATE TABLE tasks (
	task  TEXT PRIMARY KEY,
	seq   INTEGER NOT NULL,
	first INTEGER NOT NULL,
	last  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- floor: the last position ever given out, as of the last removal of events.
-- The next position follows the higher of it and the last event's, so that
-- commits need not write it and removals cannot bring a number back.
CREATE TABLE counters (
	name  TEXT PRIMARY KEY,
	value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters VALUES ('floor', 0);
`

// schema2 lets an attempt record its turn in the session, and how long it
// waited for people.
const schema2 = `
ALTER TABLE attempts ADD COLUMN turn TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN waited INTEGER NOT NULL DEFAULT 0;
`

// schema3 is the version whose steps record their path, and whose nodes have further types
// (docs/format.md). An agent that asks looks up the gates of its thread; requests are looked up
// while they are open, and removed by task.
const schema3 = `
CREATE INDEX gates_thread ON gates(thread);

CREATE TABLE wishes (
	id      TEXT PRIMARY KEY,
	task    TEXT NOT NULL,
	thread  TEXT NOT NULL,
	kind    TEXT NOT NULL,
	text    TEXT NOT NULL,
	options BLOB,
	author  TEXT NOT NULL,
	via     TEXT NOT NULL,
	at      INTEGER NOT NULL,
	taken   INTEGER NOT NULL   -- 0: open
) STRICT, WITHOUT ROWID;
CREATE INDEX wishes_task ON wishes(task);
CREATE INDEX wishes_open ON wishes(task) WHERE taken = 0;
`

// schema4 is the version whose joins say why paths failed (docs/format.md), and gives each root
// thread a short name. Existing ones get the shortest unused suffix of their ids, of four to
// eight characters, older threads first.
const schema4 = `
ALTER TABLE threads ADD COLUMN short TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX threads_short ON threads(short) WHERE short <> '';
UPDATE OR IGNORE threads SET short = lower(substr(id, -4)) WHERE kind = 'root';
UPDATE OR IGNORE threads SET short = lower(substr(id, -5)) WHERE kind = 'root' AND short = '';
UPDATE OR IGNORE threads SET short = lower(substr(id, -6)) WHERE kind = 'root' AND short = '';
UPDATE OR IGNORE threads SET short = lower(substr(id, -8)) WHERE kind = 'root' AND short = '';
`

// schema5 finds the notes of a task, which every prompt asks for and of which there are few, without
// reading the other events since the last one.
const schema5 = `
CREATE INDEX events_notes ON events(task, pos) WHERE type = 'notes.read';
`

// schema6 is the version whose attempts keep their traffic with a model (docs/format.md). It finds the
// threads of a flow that have not ended, few among all.
const schema6 = `
ALTER TABLE attempts ADD COLUMN calls BLOB;
DROP INDEX threads_bundle;
CREATE INDEX threads_bundle ON threads(bundle, status);
`

// schema7 checks batches against the leases under which they are made, counts what the hosts of a task use up,
// records whose process an attempt is, and keeps the action that a person approved instead of the one that was
// asked for.
const schema7 = `
CREATE TABLE leases (
	name  TEXT PRIMARY KEY,
	token INTEGER NOT NULL   -- of who took it last
) STRICT, WITHOUT ROWID;

CREATE TABLE counts (
	task  TEXT NOT NULL,
	name  TEXT NOT NULL,
	value INTEGER NOT NULL,
	PRIMARY KEY (task, name)
) STRICT, WITHOUT ROWID;

ALTER TABLE attempts ADD COLUMN host TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN boot TEXT NOT NULL DEFAULT '';

ALTER TABLE gates ADD COLUMN edited BLOB;
ALTER TABLE gates ADD COLUMN editeddigest BLOB;
`

// schema8 keeps recently put objects in insertion order (recent.go). It records the highest row that ever
// moved to objects, so that ids of bodies are never reused.
const schema8 = `
CREATE TABLE recent (
	id   INTEGER PRIMARY KEY,   -- in bodies
	hash BLOB NOT NULL,
	kind INTEGER NOT NULL,
	size INTEGER NOT NULL,
	put  INTEGER NOT NULL
) STRICT;
INSERT INTO counters VALUES ('folded', 0);
`

// schema9 changes no table: from it on, details name the answers that their steps were made with (thread.Answers). A
// Plait that does not write them must not go on with such a record.
const schema9 = ""

// schema10 is the version whose events prove rows and are the leaves of a tree (log.go), and whose answers may be
// signed. An older Plait that has the file open goes on: the triggers keep it from taking an event away without a
// leaf, and what it files is added to the tree later.
const schema10 = `
ALTER TABLE events ADD COLUMN proof BLOB;
ALTER TABLE gates ADD COLUMN signature TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN secret BLOB;   -- salts its leaves
ALTER TABLE tasks ADD COLUMN log BLOB;      -- the tree, as of its last events

CREATE TABLE log (
	origin TEXT NOT NULL,
	since  INTEGER NOT NULL,   -- last position before it began
	tree   BLOB NOT NULL       -- as of the last removal of events
) STRICT;

CREATE TABLE erased (
	pos  INTEGER PRIMARY KEY,
	leaf BLOB NOT NULL
) STRICT;

CREATE TRIGGER events_removed BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM erased WHERE pos = OLD.pos)
BEGIN SELECT RAISE(ABORT, 'an event is removed without its leaf: update Plait'); END;

CREATE TRIGGER events_changed BEFORE UPDATE ON events
WHEN NOT EXISTS (SELECT 1 FROM erased WHERE pos = OLD.pos)
BEGIN SELECT RAISE(ABORT, 'an event is changed without its leaf: update Plait'); END;
`

// logVersion is the version of the schema that has the log.
const logVersion = 10

// version reads the schema version, 0 for an empty file, and refuses a database
// that is not Plait's or too new.
func version(c *sqlite.Conn) (int, error) {
	id, err := number(c, "PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	v, err := number(c, "PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	tables, err := number(c, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, err
	}
	switch {
	case tables == 0 && v == 0 && id == 0:
		return 0, nil
	case id != applicationID:
		return 0, errors.New("this database was not made by Plait")
	case v > int64(len(migrations)):
		return 0, fmt.Errorf("schema version %d is newer than this Plait supports (%d); update Plait: %w",
			v, len(migrations), store.ErrNewer)
	}
	return int(v), nil
}

// Schema returns the schema version found when the store was opened, 0 if it was created, and the
// current one.
func (s *Store) Schema() (found, now int) { return s.found, len(migrations) }

// migrate brings the schema up to date and returns the previous version; keep copies a database that
// has an older one first. The caller ensures that no other process is opening the same store.
func migrate(c *sqlite.Conn, at time.Time, keep func(version int) error) (v int, err error) {
	v, err = version(c)
	if err != nil || v == len(migrations) {
		return v, err
	}
	if v == 0 {
		// Only an empty file accepts these, and only before it is in WAL mode.
		// Steps of a few KB fill pages of 8 KiB better than pages of 4.
		for _, q := range []string{"PRAGMA page_size = 8192", "PRAGMA auto_vacuum = INCREMENTAL"} {
			if err := sqlitex.ExecuteTransient(c, q, nil); err != nil {
				return v, err
			}
		}
	}
	if err := wal(c); err != nil {
		return v, err
	}
	end, err := sqlitex.ImmediateTransaction(c)
	if err != nil {
		return v, err
	}
	defer end(&err)
	// Again, now that no process can write: an older Plait, which does not use
	// our lock on the directory, may have come in between.
	if v, err = version(c); err != nil {
		return v, err
	}
	if v > 0 && v < len(migrations) {
		if err := keep(v); err != nil {
			return v, err
		}
	}
	for i := v; i < len(migrations); i++ {
		if err := sqlitex.ExecuteScript(c, migrations[i], nil); err != nil {
			return v, fmt.Errorf("bring the schema to version %d: %w", i+1, err)
		}
		if i+1 == logVersion {
			if err := beginLog(c, at); err != nil {
				return v, fmt.Errorf("begin the log: %w", err)
			}
		}
	}
	for _, q := range []string{
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", len(migrations)),
	} {
		if err := sqlitex.ExecuteTransient(c, q, nil); err != nil {
			return v, err
		}
	}
	return v, nil
}

func wal(c *sqlite.Conn) error {
	var mode string
	err := sqlitex.ExecuteTransient(c, "PRAGMA journal_mode = WAL", &sqlitex.ExecOptions{
		ResultFunc: func(st *sqlite.Stmt) error { mode = st.ColumnText(0); return nil },
	})
	if err == nil && mode != "wal" {
		err = fmt.Errorf("the file system allows no write-ahead log (journal mode is %s)", mode)
	}
	return err
}

// number runs a query that returns a single number.
func number(c *sqlite.Conn, query string) (n int64, err error) {
	err = sqlitex.ExecuteTransient(c, query, &sqlitex.ExecOptions{
		ResultFunc: func(st *sqlite.Stmt) error { n = st.ColumnInt64(0); return nil },
	})
	return n, err
}
