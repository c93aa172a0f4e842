-- What a store is made of. Hashes are 32 bytes; an empty bytea is the hash that names
-- nothing. Times are Unix milliseconds by this server's clock. Texts are compared byte by
-- byte. A row of a thread and the like is kept as row, in JSON, and as what it is looked
-- for, ordered or compared by; names are the hashes that it names, one behind the other, and
-- after 32 zeros those that it may name.

CREATE TABLE plait.objects (
	hash bytea    PRIMARY KEY,
	kind smallint NOT NULL,    -- 0 blob, 1 node
	size bigint   NOT NULL,
	put  bigint   NOT NULL,
	body bytea,                -- packed; NULL: see loc
	loc  text COLLATE "C"      -- where the bytes are: a key of the bucket, or chunks/ and a loc of chunks
) WITH (fillfactor = 90);
ALTER TABLE plait.objects ALTER COLUMN body SET STORAGE MAIN;
CREATE INDEX objects_loc ON plait.objects (loc) WHERE loc IS NOT NULL;

CREATE TABLE plait.chunks (
	loc  text COLLATE "C" NOT NULL,
	n    int   NOT NULL,
	data bytea NOT NULL,
	PRIMARY KEY (loc, n)
);
ALTER TABLE plait.chunks ALTER COLUMN data SET STORAGE EXTERNAL;

-- Bytes that are on their way. While its handle lives nobody takes them for garbage.
CREATE TABLE plait.uploads (
	loc    text COLLATE "C" PRIMARY KEY,
	handle text NOT NULL
);

CREATE TABLE plait.pins (
	pin  text COLLATE "C" NOT NULL,
	hash bytea NOT NULL,
	PRIMARY KEY (pin, hash)
);
CREATE INDEX pins_hash ON plait.pins (hash);

CREATE TABLE plait.threads (
	id        text COLLATE "C" PRIMARY KEY,
	task      text COLLATE "C" NOT NULL,
	root      text COLLATE "C" NOT NULL,
	short     text COLLATE "C" NOT NULL,
	kind      text COLLATE "C" NOT NULL,
	workspace text COLLATE "C" NOT NULL,
	bundle    bytea NOT NULL,
	status    text COLLATE "C" NOT NULL,
	wanted    text COLLATE "C" NOT NULL,
	head      bytea NOT NULL,
	names     bytea NOT NULL,
	row       bytea NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX threads_task ON plait.threads (task);
CREATE INDEX threads_root ON plait.threads (root);
CREATE UNIQUE INDEX threads_short ON plait.threads (short) WHERE short <> '';
CREATE INDEX threads_workspace ON plait.threads (workspace, id);
CREATE INDEX threads_bundle ON plait.threads (bundle, status);
CREATE INDEX threads_live ON plait.threads (status) WHERE status IN ('pending', 'running', 'blocked');

CREATE TABLE plait.attempts (
	id      text COLLATE "C" PRIMARY KEY,
	thread  text COLLATE "C" NOT NULL,
	n       bigint NOT NULL,
	origin  bytea NOT NULL,
	status  text COLLATE "C" NOT NULL,
	names   bytea NOT NULL,
	row     bytea NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX attempts_thread ON plait.attempts (thread, n);
CREATE INDEX attempts_running ON plait.attempts (thread) WHERE status = 'running';

CREATE TABLE plait.gates (
	id     text COLLATE "C" PRIMARY KEY,
	task   text COLLATE "C" NOT NULL,
	thread text COLLATE "C" NOT NULL,
	state  text COLLATE "C" NOT NULL,
	used   bigint NOT NULL,
	names  bytea NOT NULL,
	row    bytea NOT NULL
);
CREATE INDEX gates_task ON plait.gates (task);
CREATE INDEX gates_thread ON plait.gates (thread);
CREATE INDEX gates_open ON plait.gates (id) WHERE state = 'open';

CREATE TABLE plait.flows (
	name  text COLLATE "C" PRIMARY KEY,
	hash  bytea NOT NULL,
	names bytea NOT NULL,
	row   bytea NOT NULL
);

CREATE TABLE plait.wishes (
	id     text COLLATE "C" PRIMARY KEY,
	task   text COLLATE "C" NOT NULL,
	thread text COLLATE "C" NOT NULL,
	taken  bigint NOT NULL,   -- 0: open
	row    bytea NOT NULL
);
CREATE INDEX wishes_task ON plait.wishes (task);

CREATE TABLE plait.counts (
	task  text COLLATE "C" NOT NULL,
	name  text COLLATE "C" NOT NULL,
	value bigint NOT NULL,
	PRIMARY KEY (task, name)
);

CREATE TABLE plait.events (
	pos      bigint PRIMARY KEY,
	seq      bigint NOT NULL,
	ts       bigint NOT NULL,
	type     text COLLATE "C" NOT NULL,
	task     text COLLATE "C" NOT NULL,
	thread   text COLLATE "C" NOT NULL,
	instance text COLLATE "C" NOT NULL,
	attempt  text COLLATE "C" NOT NULL,
	payload  bytea
);
CREATE INDEX events_task ON plait.events (task, pos);
CREATE INDEX events_notes ON plait.events (task, pos) WHERE type = 'notes.read';

-- tasks: how many events a task has had.
CREATE TABLE plait.tasks (
	task text COLLATE "C" PRIMARY KEY,
	seq  bigint NOT NULL
) WITH (fillfactor = 70);

-- pos: the last position given out. floor: what it was when events were last removed;
-- there are no gaps above it.
CREATE TABLE plait.counters (
	name  text COLLATE "C" PRIMARY KEY,
	value bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO plait.counters VALUES ('pos', 0), ('floor', 0);

-- Groups of batches that were committed in the last hour, and what came of each batch:
-- for whoever did not hear the answer.
CREATE TABLE plait.applied (
	id      bytea PRIMARY KEY,
	at      bigint NOT NULL,
	results text[] NOT NULL,
	pos     bigint NOT NULL
);
CREATE INDEX applied_at ON plait.applied (at);

-- Processes that have the store open, and until when they count as alive unless they
-- are heard of again.
CREATE TABLE plait.handles (
	id      text COLLATE "C" PRIMARY KEY,
	owner   text NOT NULL,
	host    text NOT NULL,
	boot    text NOT NULL,
	pid     bigint NOT NULL,
	start   bigint NOT NULL,
	until   bigint NOT NULL
) WITH (fillfactor = 50);

-- A lease is held while its handle is one that counts as alive. A row stays for good,
-- as its token may only grow.
CREATE TABLE plait.leases (
	name   text COLLATE "C" PRIMARY KEY,
	token  bigint NOT NULL,
	handle text COLLATE "C" NOT NULL   -- empty: released
) WITH (fillfactor = 70);
CREATE INDEX leases_handle ON plait.leases (handle) WHERE handle <> '';

DO $$ BEGIN
	ALTER TABLE plait.objects ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN OTHERS THEN
	NULL; -- a server that was built without it compresses as it always did
END $$;

-- millis returns the time.
CREATE FUNCTION plait.millis() RETURNS bigint LANGUAGE sql VOLATILE
	AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint';
