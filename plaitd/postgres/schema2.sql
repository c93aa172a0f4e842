-- No table changes. From here on details name the answers that their steps were made with (thread.Answers), and batches
-- redact (store.Redaction).

-- before takes trees away, makes objects that are kept count as put just now, and replaces what is redacted. A pin
-- belongs to the thread or attempt that it is named after; "/" follows "." in order.
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
CREATE FUNCTION plait.redact(p_redact jsonb, p_lo int, p_hi int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE plait.objects o SET size = x.size, body = decode(x.data, 'base64'), loc = NULL
		FROM jsonb_to_recordset(p_redact) x(b int, hash text, size bigint, data text)
		WHERE x.b BETWEEN p_lo AND p_hi AND o.hash = decode(x.hash, 'hex');
	UPDATE plait.wishes w SET row = decode(x.data, 'base64')
		FROM jsonb_to_recordset(p_redact) x(b int, wish text, data text)
		WHERE x.b BETWEEN p_lo AND p_hi AND w.id = x.wish;
	UPDATE plait.events e SET payload = decode(x.data, 'base64')
		FROM jsonb_to_recordset(p_redact) x(b int, event bigint, data text)
		WHERE x.b BETWEEN p_lo AND p_hi AND e.pos = x.event;
END $$;
