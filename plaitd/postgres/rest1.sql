-- What is rare in a batch comes as JSON, each piece with the number b of its batch.

-- named reports whether a row names an object already.
CREATE FUNCTION plait.named(p_table text, p_id text, p_hash bytea) RETURNS boolean LANGUAGE sql STABLE AS $$
	SELECT CASE p_table
		WHEN 'thread ' THEN EXISTS (SELECT 1 FROM plait.threads WHERE id = p_id AND position(p_hash IN names) > 0)
		WHEN 'attempt ' THEN EXISTS (SELECT 1 FROM plait.attempts WHERE id = p_id AND position(p_hash IN names) > 0)
		WHEN 'gate ' THEN EXISTS (SELECT 1 FROM plait.gates WHERE id = p_id AND position(p_hash IN names) > 0)
		WHEN 'flow ' THEN EXISTS (SELECT 1 FROM plait.flows WHERE name = p_id AND position(p_hash IN names) > 0)
		ELSE false END
$$;

-- before takes trees away, and makes objects that are kept count as put just now. A pin
-- belongs to the thread or attempt that it is named after; "/" follows "." in order.
CREATE FUNCTION plait.before(p_rest jsonb, p_lo int, p_hi int, p_pos bigint) RETURNS void LANGUAGE plpgsql AS $$
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
END $$;

-- change moves gates, flows, wishes and counts, and ends uploads.
CREATE FUNCTION plait.change(p_rest jsonb, p_lo int, p_hi int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	v record;
	v_gate plait.gates;
	v_hash bytea;
	v_value bigint;
	v_found boolean;
BEGIN
	FOR v IN SELECT * FROM jsonb_to_recordset(p_rest->'gates')
		x(b int, "from" text, used0 bigint, id text, task text, thread text, state text, used bigint, names text, "row" text)
		WHERE x.b BETWEEN p_lo AND p_hi
	LOOP
		SELECT * INTO v_gate FROM plait.gates WHERE id = v.id;
		v_found := FOUND;
		IF v_found AND v."from" = '' THEN
			RAISE EXCEPTION 'gate %: exists', v.id USING ERRCODE = 'PL001';
		ELSIF NOT v_found AND v."from" <> '' THEN
			RAISE EXCEPTION 'gate %: is gone', v.id USING ERRCODE = 'PL001';
		ELSIF v_found AND v_gate.state <> v."from" THEN
			RAISE EXCEPTION 'gate %: is %, not %', v.id, v_gate.state, v."from" USING ERRCODE = 'PL001';
		ELSIF v_found AND v_gate.used <> v.used0 THEN
			RAISE EXCEPTION 'gate %: was used at %', v.id, v_gate.used USING ERRCODE = 'PL001';
		END IF;
		INSERT INTO plait.gates VALUES
			(v.id, v.task, v.thread, v.state, v.used, decode(v.names, 'base64'), decode(v."row", 'base64'))
			ON CONFLICT (id) DO UPDATE SET task = excluded.task, thread = excluded.thread, state = excluded.state,
				used = excluded.used, names = excluded.names, row = excluded.row;
	END LOOP;

	FOR v IN SELECT x.b, x.name, decode(x."from", 'base64') AS old, decode(x.hash, 'base64') AS new, x.gone,
			decode(x.names, 'base64') AS names, decode(x."row", 'base64') AS value
		FROM jsonb_to_recordset(p_rest->'flows') x(b int, "from" text, hash text, gone boolean, name text, names text, "row" text)
		WHERE x.b BETWEEN p_lo AND p_hi
	LOOP
		SELECT hash INTO v_hash FROM plait.flows WHERE name = v.name;
		v_found := FOUND;
		IF v_found = (length(v.old) = 0) OR v_found AND v_hash <> v.old OR v.gone AND NOT v_found THEN
			RAISE EXCEPTION 'flow %', v.name USING ERRCODE = 'PL001';
		ELSIF v.gone THEN
			DELETE FROM plait.flows WHERE name = v.name;
		ELSE
			INSERT INTO plait.flows VALUES (v.name, v.new, v.names, v.value)
				ON CONFLICT (name) DO UPDATE SET hash = excluded.hash, names = excluded.names, row = excluded.row;
		END IF;
	END LOOP;

	FOR v IN SELECT * FROM jsonb_to_recordset(p_rest->'wishes')
		x(b int, take boolean, id text, task text, thread text, taken bigint, "row" text) WHERE x.b BETWEEN p_lo AND p_hi
	LOOP
		IF v.take THEN
			UPDATE plait.wishes SET taken = v.taken WHERE id = v.id AND taken = 0;
		ELSE
			INSERT INTO plait.wishes VALUES (v.id, v.task, v.thread, v.taken, decode(v."row", 'base64')) ON CONFLICT DO NOTHING;
		END IF;
		IF NOT FOUND THEN
			RAISE EXCEPTION 'wish %: %', v.id, CASE WHEN v.take THEN 'is taken or gone' ELSE 'exists' END USING ERRCODE = 'PL001';
		END IF;
	END LOOP;

	FOR v IN SELECT * FROM jsonb_to_recordset(p_rest->'counts') x(b int, task text, name text, add bigint, most bigint)
		WHERE x.b BETWEEN p_lo AND p_hi
	LOOP
		SELECT value INTO v_value FROM plait.counts WHERE task = v.task AND name = v.name;
		v_value := coalesce(v_value, 0);
		IF v.add > 0 AND v_value > v.most - v.add THEN
			RAISE EXCEPTION 'count % of task %: is % of %', v.name, v.task, v_value, v.most USING ERRCODE = 'PL001';
		END IF;
		INSERT INTO plait.counts VALUES (v.task, v.name, greatest(0, v_value + v.add)) ON CONFLICT (task, name) DO UPDATE SET value = excluded.value;
	END LOOP;

	FOR v IN SELECT * FROM jsonb_to_recordset(p_rest->'uploads') x(b int, loc text) WHERE x.b BETWEEN p_lo AND p_hi LOOP
		DELETE FROM plait.uploads WHERE loc = v.loc;
		IF NOT FOUND THEN
			RAISE EXCEPTION 'upload %: given up', v.loc USING ERRCODE = 'PL004';
		END IF;
	END LOOP;
END $$;
