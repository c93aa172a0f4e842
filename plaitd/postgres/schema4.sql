-- From here on there is a log: a tree of RFC 6962 over the events (docs/format.md). What was committed before is hashed
-- too, by catch_up.

-- erased: the leaves of events that were removed or redacted, as they were before.
CREATE TABLE plait.erased (
	pos  bigint PRIMARY KEY,
	leaf bytea NOT NULL
);
-- Roles of workers were granted their privileges before, and catch_up reads it. Leaves are salted, and say nothing.
GRANT SELECT ON plait.erased TO PUBLIC;

-- secret: 32 bytes that salt the leaves of the task, and go with it.
ALTER TABLE plait.tasks ADD COLUMN secret bytea NOT NULL
	DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());

-- proof: what the event's batch made of rows.
ALTER TABLE plait.events ADD COLUMN proof bytea;

-- log: in the row pos, the tree: its size as 8 bytes, and the roots of the complete subtrees of which it consists, the
-- highest first. since: the last position before there was a log.
ALTER TABLE plait.counters ADD COLUMN log bytea;
UPDATE plait.counters SET log = int8send(0) WHERE name = 'pos';
INSERT INTO plait.counters (name, value) SELECT 'since', value FROM plait.counters WHERE name = 'pos';

-- origin: what tells the log from others, an ULID.
ALTER TABLE plait.meta ADD COLUMN origin text COLLATE "C" NOT NULL DEFAULT '';

-- leaf returns the leaf of an event, as store.Event.Leaf does. An array is sent as 20 bytes, then each element behind
-- its length. It is one expression, which becomes part of the query that calls it.
CREATE FUNCTION plait.leaf(
	p_secret bytea, p_pos bigint, p_seq bigint, p_ts bigint, p_type text, p_task text, p_thread text, p_instance text,
	p_attempt text, p_payload bytea, p_proof bytea
) RETURNS bytea LANGUAGE sql STABLE AS $$
	SELECT sha256('\x00'::bytea || sha256(p_secret || int8send(p_pos))
		|| '\x706c6169742e656e7472792f31'::bytea || int8send(p_pos) || int8send(p_seq) || int8send(p_ts) -- plait.entry/1
		|| substr(array_send(ARRAY[p_type, p_task, p_thread, p_instance, p_attempt]), 21)
		|| substr(array_send(ARRAY[coalesce(p_payload, ''), coalesce(p_proof, '')]), 21))
$$;

-- size returns how many leaves a log has.
CREATE FUNCTION plait.size(p_log bytea) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
	SELECT ('x' || encode(substr(p_log, 1, 8), 'hex'))::bit(64)::bigint
$$;

-- grown returns a log with more leaves.
CREATE FUNCTION plait.grown(p_log bytea, p_size bigint, p_leaves bytea[]) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	v_nodes bytea := substr(p_log, 9);
	v_size bigint := p_size;
	v_leaf bytea;
	v_n bigint;
BEGIN
	FOREACH v_leaf IN ARRAY p_leaves LOOP
		v_n := v_size;
		WHILE v_n & 1 = 1 LOOP -- the last two subtrees have the same size
			v_leaf := sha256('\x01'::bytea || substr(v_nodes, length(v_nodes) - 31) || v_leaf);
			v_nodes := substr(v_nodes, 1, length(v_nodes) - 32);
			v_n := v_n >> 1;
		END LOOP;
		v_nodes := v_nodes || v_leaf;
		v_size := v_size + 1;
	END LOOP;
	RETURN int8send(v_size) || v_nodes;
END $$;

-- catch_up adds to the log events that it lacks, at most p_most, and returns how many it lacks then: those of before
-- the log, and those of a commit that was under way when it began. Whoever calls it has the lock of commits. A position
-- without an event or a leaf was lost.
CREATE FUNCTION plait.catch_up(p_most bigint) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
	v_log bytea;
	v_size bigint;
	v_pos bigint;
	v_to bigint;
BEGIN
	SELECT log, plait.size(log), value INTO v_log, v_size, v_pos FROM plait.counters WHERE name = 'pos';
	v_to := least(v_pos, v_size + p_most);
	IF v_to <= v_size THEN
		RETURN 0;
	END IF;
	SELECT plait.grown(v_log, v_size,
			array_agg(coalesce(x.leaf, plait.leaf(t.secret, e.pos, e.seq, e.ts, e.type, e.task, e.thread, e.instance,
			e.attempt, e.payload, e.proof), sha256('\x006c6f7374')) ORDER BY g.pos)) INTO v_log
		FROM generate_series(v_size + 1, v_to) g(pos)
		LEFT JOIN plait.erased x ON x.pos = g.pos
		LEFT JOIN plait.events e ON e.pos = g.pos
		LEFT JOIN plait.tasks t ON t.task = e.task;
	UPDATE plait.counters SET log = v_log WHERE name = 'pos';
	RETURN v_pos - v_to;
END $$;

-- before takes trees away, makes objects that are kept count as put just now, and replaces what is redacted. A pin
-- belongs to the thread or attempt that it is named after; "/" follows "." in order. The leaves of events stay.
CREATE OR REPLACE FUNCTION plait.before(p_rest jsonb, p_lo int, p_hi int, p_pos bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	v record;
	v_tree text[];
BEGIN
	FOR v IN SELECT x.root FROM jsonb_to_recordset(p_rest->'remove') x(b int, root text) WHERE x.b BETWEEN p_lo AND p_hi LOOP
		v_tree := ARRAY(SELECT id FROM plait.threads WHERE task = v.root UNION SELECT id FROM plait.threads WHERE root = v.root
			UNION SELECT v.root);
		DELETE FROM plait.threads WHERE id = ANY (v_tree);
		DELETE FROM plait.attempts WHERE thread = ANY (v_tree);
		DELETE FROM plait.gates WHERE thread = ANY (v_tree);
		DELETE FROM plait.gates WHERE task = v.root;
		DELETE FROM plait.pins WHERE pin = ANY (v_tree);
		DELETE FROM plait.pins p USING unnest(v_tree) x(id) WHERE p.pin > x.id || '.' AND p.pin < x.id || '/';
		DELETE FROM plait.wishes WHERE task = v.root;
		DELETE FROM plait.counts WHERE task = v.root;
		PERFORM plait.erase(ARRAY(SELECT pos FROM plait.events WHERE task = v.root));
		DELETE FROM plait.events WHERE task = v.root;
		DELETE FROM plait.tasks WHERE task = v.root;
		UPDATE plait.counters SET value = p_pos WHERE name = 'floor';
	END LOOP;
	UPDATE plait.objects SET put = greatest(put, plait.millis())
		WHERE hash = ANY (ARRAY(SELECT decode(x.hash, 'hex') FROM jsonb_to_recordset(p_rest->'touch') x(b int, hash text)
			WHERE x.b BETWEEN p_lo AND p_hi));
	IF p_rest ? 'redact' THEN
		PERFORM plait.redact(p_rest->'redact', p_lo, p_hi);
	END IF;
END $$;

-- redact replaces the bytes of objects, the rows of wishes and the payloads of events.
CREATE OR REPLACE FUNCTION plait.redact(p_redact jsonb, p_lo int, p_hi int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE plait.objects o SET size = x.size, body = decode(x.data, 'base64'), loc = NULL
		FROM jsonb_to_recordset(p_redact) x(b int, hash text, size bigint, data text)
		WHERE x.b BETWEEN p_lo AND p_hi AND o.hash = decode(x.hash, 'hex');
	UPDATE plait.wishes w SET row = decode(x.data, 'base64')
		FROM jsonb_to_recordset(p_redact) x(b int, wish text, data text)
		WHERE x.b BETWEEN p_lo AND p_hi AND w.id = x.wish;
	PERFORM plait.erase(ARRAY(SELECT x.event FROM jsonb_to_recordset(p_redact) x(b int, event bigint)
		WHERE x.b BETWEEN p_lo AND p_hi AND x.event IS NOT NULL));
	UPDATE plait.events e SET payload = decode(x.data, 'base64')
		FROM jsonb_to_recordset(p_redact) x(b int, event bigint, data text)
		WHERE x.b BETWEEN p_lo AND p_hi AND e.pos = x.event;
END $$;

-- erase keeps the leaves of events that are about to be changed. Of one that was redacted the first leaf stays.
CREATE FUNCTION plait.erase(p_events bigint[]) RETURNS void LANGUAGE sql AS $$
	INSERT INTO plait.erased
		SELECT e.pos, plait.leaf(t.secret, e.pos, e.seq, e.ts, e.type, e.task, e.thread, e.instance,
			e.attempt, e.payload, e.proof)
		FROM plait.events e JOIN plait.tasks t ON t.task = e.task WHERE e.pos = ANY (p_events)
		ON CONFLICT DO NOTHING
$$;
