-- commit applies a group of batches, in one transaction: all that do not conflict with what
-- is there. Batches are numbered from 1 to p_n, and every array of p_b… says to which batch
-- each of its elements belongs. It returns for every batch nothing or an SQLSTATE and why it
-- was refused, and the last position.
--
-- All batches are applied at once. If one of them is refused all is undone, and they are
-- applied one by one, each of them undone by itself.
--
-- The lock comes first: so positions rise in the order of commits, and groups of several
-- processes cannot wait for each other in a circle. What is asked for below sees all that
-- was committed before the lock was had, as each statement looks anew.
--
-- Of the events p_task has the tasks, in byte order, with how many events each has and a secret in case it is new;
-- p_event_of says which of them an event belongs to, and p_event_left how many more of that task follow.
--
-- Every parameter begins with p_ and every variable with v_: a name that a column has too
-- would mean the column, silently.
CREATE FUNCTION plait.commit(
	p_key bigint, p_id bytea, p_again boolean, p_n int, p_rounds int, p_rest jsonb,
	p_b_fence int[], p_fence_name text[], p_fence_token bigint[],
	p_b_object int[], p_object_hash bytea[], p_object_kind int[], p_object_size bigint[], p_object_body bytea[],
	p_object_loc text[], p_object_again boolean[],
	p_b_ref int[], p_ref_table text[], p_ref_row text[], p_ref_hash bytea[],
	p_b_thread int[], p_thread_round int[], p_thread_swap boolean[], p_from_head bytea[], p_from_status text[], p_from_wanted text[],
	p_thread_id text[], p_thread_task text[], p_thread_root text[], p_thread_short text[], p_thread_kind text[],
	p_thread_workspace text[], p_thread_bundle bytea[], p_thread_status text[], p_thread_wanted text[], p_thread_head bytea[],
	p_thread_names bytea[], p_thread_row bytea[],
	p_b_attempt int[], p_attempt_round int[], p_attempt_from text[], p_attempt_id text[], p_attempt_thread text[],
	p_attempt_n bigint[], p_attempt_origin bytea[], p_attempt_status text[], p_attempt_names bytea[], p_attempt_row bytea[],
	p_b_event int[], p_event_ts bigint[], p_event_type text[], p_event_task text[], p_event_thread text[],
	p_event_instance text[], p_event_attempt text[], p_event_payload bytea[], p_event_proof bytea[],
	p_event_of int[], p_event_left bigint[], p_task text[], p_task_events bigint[], p_task_secret bytea[],
	p_b_pin int[], p_pin_pin text[], p_pin_hash bytea[],
	p_b_unpin int[], p_unpin_pin text[],
	OUT r_results text[], OUT r_pos bigint
)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
	v_lo int := 1;
	v_hi int := p_n;
	v_now bigint;
	v_pos bigint;
	v_all boolean;
	v_one boolean;
	v_want bigint;
	v_got bigint;
	v_more bigint;
	v_lost text;
	v_events bigint;
	v_off bigint;
	v_at bigint;
	v_seq bigint[];
	v_secret bytea[];
	v_leaves bytea[];
	v_behind boolean;
	v_log bytea;
BEGIN
	IF pg_advisory_xact_lock(p_key) IS NULL THEN -- never: as a condition it is called at less cost than by PERFORM
		RETURN;
	END IF;
	IF p_again THEN
		SELECT results, pos INTO r_results, r_pos FROM plait.applied WHERE id = p_id;
		IF FOUND THEN
			RETURN;
		END IF;
	END IF;
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
	v_now := plait.millis();
	r_results := array_fill(''::text, ARRAY[p_n]);
	WHILE v_lo <= p_n LOOP
	BEGIN
		v_all := v_lo = 1 AND v_hi = p_n;
		v_one := v_lo = v_hi;
		v_events := coalesce(cardinality(p_b_event), 0);
		IF NOT v_all AND v_events > 0 THEN
			SELECT count(*) INTO v_events FROM unnest(p_b_event) x(b) WHERE x.b BETWEEN v_lo AND v_hi;
		END IF;
		SELECT value, log INTO v_pos, v_log FROM plait.counters WHERE name = 'pos';
		r_pos := v_pos + v_events;

		IF cardinality(p_b_fence) > 0 THEN
			SELECT format('%s is at %s, not at %s', x.name, coalesce(l.token, 0), x.token) INTO v_lost
				FROM unnest(p_b_fence, p_fence_name, p_fence_token) x(b, name, token)
				LEFT JOIN plait.leases l ON l.name = x.name
				WHERE x.b BETWEEN v_lo AND v_hi AND l.token IS DISTINCT FROM x.token LIMIT 1;
			IF FOUND THEN
				RAISE EXCEPTION 'lease %', v_lost USING ERRCODE = 'PL003';
			END IF;
		END IF;

		IF p_rest IS NOT NULL THEN
			PERFORM plait.before(p_rest, v_lo, v_hi, v_pos);
		END IF;

		IF cardinality(p_b_object) > 0 THEN
			INSERT INTO plait.objects AS o (hash, kind, size, put, body, loc)
				SELECT x.hash, x.kind, x.size, v_now, x.body, NULLIF(x.loc, '')
				FROM unnest(p_b_object, p_object_hash, p_object_kind, p_object_size, p_object_body, p_object_loc, p_object_again)
					x(b, hash, kind, size, body, loc, again)
				WHERE x.b BETWEEN v_lo AND v_hi AND (v_one OR NOT x.again)
				ON CONFLICT (hash) DO UPDATE SET put = greatest(o.put, excluded.put), kind = greatest(o.kind, excluded.kind);
		END IF;

		-- What a row newly names has to be there. That is told after the rows are looked at:
		-- of a batch that also conflicts it is the lesser news.
		v_lost := NULL;
		IF cardinality(p_b_ref) > 0 THEN
			SELECT string_agg(x.tab || x.row || ' names object ' || encode(x.hash, 'hex'), ', ') INTO v_lost
				FROM unnest(p_b_ref, p_ref_table, p_ref_row, p_ref_hash) x(b, tab, row, hash)
				WHERE x.b BETWEEN v_lo AND v_hi
				-- In this order: calling a function costs more than all the rest of a small batch.
				AND CASE WHEN EXISTS (SELECT 1 FROM plait.objects o WHERE o.hash = x.hash) THEN false
					ELSE NOT plait.named(x.tab, x.row, x.hash) END;
		END IF;

		IF cardinality(p_b_thread) > 0 THEN
			FOR v_round IN 1..p_rounds LOOP
				v_got := 0;
				v_more := 0;
				IF false = ANY (p_thread_swap) THEN
					INSERT INTO plait.threads
						SELECT x.id, x.task, x.root, x.short, x.kind, x.workspace, x.bundle, x.status, x.wanted, x.head, x.names, x.row
						FROM unnest(p_b_thread, p_thread_round, p_thread_swap, p_thread_id, p_thread_task, p_thread_root, p_thread_short,
							p_thread_kind, p_thread_workspace, p_thread_bundle, p_thread_status, p_thread_wanted, p_thread_head,
							p_thread_names, p_thread_row)
							x(b, round, swap, id, task, root, short, kind, workspace, bundle, status, wanted, head, names, row)
						WHERE x.b BETWEEN v_lo AND v_hi AND x.round = v_round AND NOT x.swap
						ON CONFLICT DO NOTHING;
					GET DIAGNOSTICS v_got = ROW_COUNT;
				END IF;
				IF true = ANY (p_thread_swap) THEN
					UPDATE plait.threads t SET task = x.task, root = x.root, short = x.short, kind = x.kind, workspace = x.workspace,
							bundle = x.bundle, status = x.status, wanted = x.wanted, head = x.head, names = x.names, row = x.row
						FROM unnest(p_b_thread, p_thread_round, p_thread_swap, p_from_head, p_from_status, p_from_wanted,
							p_thread_id, p_thread_task, p_thread_root, p_thread_short,
							p_thread_kind, p_thread_workspace, p_thread_bundle, p_thread_status, p_thread_wanted, p_thread_head,
							p_thread_names, p_thread_row)
							x(b, round, swap, from_head, from_status, from_wanted,
								id, task, root, short, kind, workspace, bundle, status, wanted, head, names, row)
						WHERE x.b BETWEEN v_lo AND v_hi AND x.round = v_round AND x.swap
						AND t.id = x.id AND t.head = x.from_head AND t.status = x.from_status AND t.wanted = x.from_wanted;
					GET DIAGNOSTICS v_more = ROW_COUNT;
				END IF;
				IF v_all AND p_rounds = 1 THEN
					v_want := cardinality(p_b_thread);
				ELSE
					SELECT count(*) INTO v_want FROM unnest(p_b_thread, p_thread_round) x(b, round)
						WHERE x.b BETWEEN v_lo AND v_hi AND x.round = v_round;
				END IF;
				IF v_got + v_more <> v_want THEN
					RAISE EXCEPTION 'thread %', CASE WHEN v_one THEN (
						SELECT x.id || CASE
								WHEN NOT x.swap AND t.id IS NULL THEN ': another one is called ' || x.short
								WHEN NOT x.swap THEN ': exists'
								WHEN t.id IS NULL THEN ': is gone'
								ELSE ': is ' || t.status || ' at ' || left(encode(t.head, 'hex'), 12) END
							FROM unnest(p_b_thread, p_thread_round, p_thread_swap, p_thread_id, p_thread_short, p_thread_row)
								x(b, round, swap, id, short, row)
							LEFT JOIN plait.threads t ON t.id = x.id
							WHERE x.b = v_lo AND x.round = v_round
							ORDER BY t.row IS DISTINCT FROM x.row DESC LIMIT 1) END USING ERRCODE = 'PL001';
				END IF;
			END LOOP;
		END IF;

		IF cardinality(p_b_attempt) > 0 THEN
			FOR v_round IN 1..p_rounds LOOP
				INSERT INTO plait.attempts
					SELECT x.id, x.thread, x.n, x.origin, x.status, x.names, x.row
					FROM unnest(p_b_attempt, p_attempt_round, p_attempt_from, p_attempt_id, p_attempt_thread, p_attempt_n,
						p_attempt_origin, p_attempt_status, p_attempt_names, p_attempt_row)
						x(b, round, want, id, thread, n, origin, status, names, row)
					WHERE x.b BETWEEN v_lo AND v_hi AND x.round = v_round AND x.want = ''
					ON CONFLICT DO NOTHING;
				GET DIAGNOSTICS v_got = ROW_COUNT;
				UPDATE plait.attempts t SET thread = x.thread, n = x.n, origin = x.origin, status = x.status,
						names = x.names, row = x.row
					FROM unnest(p_b_attempt, p_attempt_round, p_attempt_from, p_attempt_id, p_attempt_thread, p_attempt_n,
						p_attempt_origin, p_attempt_status, p_attempt_names, p_attempt_row)
						x(b, round, want, id, thread, n, origin, status, names, row)
					WHERE x.b BETWEEN v_lo AND v_hi AND x.round = v_round AND x.want <> '' AND t.id = x.id AND t.status = x.want;
				GET DIAGNOSTICS v_more = ROW_COUNT;
				IF v_all AND p_rounds = 1 THEN
					v_want := cardinality(p_b_attempt);
				ELSE
					SELECT count(*) INTO v_want FROM unnest(p_b_attempt, p_attempt_round) x(b, round)
						WHERE x.b BETWEEN v_lo AND v_hi AND x.round = v_round;
				END IF;
				IF v_got + v_more <> v_want THEN
					RAISE EXCEPTION 'attempt %', CASE WHEN v_one THEN (
						SELECT x.id || CASE WHEN x.want = '' THEN ': exists' WHEN t.id IS NULL THEN ': is gone'
								ELSE ': is ' || t.status || ', not ' || x.want END
							FROM unnest(p_b_attempt, p_attempt_round, p_attempt_from, p_attempt_id, p_attempt_row)
								x(b, round, want, id, row)
							LEFT JOIN plait.attempts t ON t.id = x.id
							WHERE x.b = v_lo AND x.round = v_round
							ORDER BY t.row IS DISTINCT FROM x.row DESC LIMIT 1) END USING ERRCODE = 'PL001';
				END IF;
			END LOOP;
		END IF;

		IF p_rest IS NOT NULL THEN
			PERFORM plait.change(p_rest, v_lo, v_hi);
		END IF;
		IF v_lost IS NOT NULL THEN
			RAISE EXCEPTION '%', v_lost USING ERRCODE = 'PL002';
		END IF;

		IF v_events > 0 THEN
			v_off := 0;
			IF p_task IS NULL OR NOT v_all THEN -- not counted by the client: it is older, or some batches were refused
				WITH x AS (
					SELECT e.task COLLATE "C" AS task, e.ord, dense_rank() OVER (ORDER BY e.task COLLATE "C") AS of,
						count(*) OVER (PARTITION BY e.task ORDER BY e.ord DESC) - 1 AS later
					FROM unnest(p_b_event, p_event_task) WITH ORDINALITY e(b, task, ord) WHERE e.b BETWEEN v_lo AND v_hi
				), t AS (
					SELECT task, count(*) AS n FROM x GROUP BY task
				)
				SELECT min(x.ord) - 1, array_agg(x.of ORDER BY x.ord), array_agg(x.later ORDER BY x.ord),
						(SELECT array_agg(t.task ORDER BY t.task) FROM t), (SELECT array_agg(t.n ORDER BY t.task) FROM t), NULL
					INTO v_off, p_event_of, p_event_left, p_task, p_task_events, p_task_secret FROM x;
			END IF;
			IF cardinality(p_task) = 1 AND p_task_secret IS NOT NULL THEN -- the same at less cost, as most lone batches are
				INSERT INTO plait.tasks AS t (task, seq, secret) VALUES (p_task[1], p_task_events[1], p_task_secret[1])
					ON CONFLICT (task) DO UPDATE SET seq = t.seq + excluded.seq
					RETURNING ARRAY[t.seq], ARRAY[t.secret] INTO v_seq, v_secret;
			ELSE
				WITH n AS (
					INSERT INTO plait.tasks AS t (task, seq, secret)
					SELECT x.task, x.n, coalesce(x.secret, uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
						FROM unnest(p_task, p_task_events, p_task_secret) x(task, n, secret)
					ON CONFLICT (task) DO UPDATE SET seq = t.seq + excluded.seq
					RETURNING t.task, t.seq, t.secret
				)
				SELECT array_agg(n.seq ORDER BY n.task), array_agg(n.secret ORDER BY n.task) INTO v_seq, v_secret FROM n;
			END IF;
			INSERT INTO plait.events (pos, seq, ts, type, task, thread, instance, attempt, payload, proof)
				SELECT v_pos + x.ord - v_off, v_seq[p_event_of[x.ord - v_off]] - p_event_left[x.ord - v_off],
					x.ts, x.type, x.task, x.thread, x.instance, x.attempt, x.payload, x.proof
				FROM unnest(p_b_event, p_event_ts, p_event_type, p_event_task, p_event_thread, p_event_instance, p_event_attempt,
					p_event_payload, p_event_proof) WITH ORDINALITY x(b, ts, type, task, thread, instance, attempt, payload, proof, ord)
				WHERE x.b BETWEEN v_lo AND v_hi;
			v_leaves := '{}';
			FOR v_i IN 1..v_events LOOP
				v_at := v_off + v_i;
				v_leaves[v_i] := plait.leaf(v_secret[p_event_of[v_i]], v_pos + v_i, v_seq[p_event_of[v_i]] - p_event_left[v_i],
					p_event_ts[v_at], p_event_type[v_at], p_event_task[v_at], p_event_thread[v_at], p_event_instance[v_at],
					p_event_attempt[v_at], p_event_payload[v_at], p_event_proof[v_at]);
			END LOOP;
			v_behind := substr(v_log, 1, 8) <> int8send(v_pos);
			IF NOT v_behind THEN -- called in the statement below, a function takes a third of a lone batch's time
				v_log := plait.grown(v_log, v_pos, v_leaves);
			END IF;
			UPDATE plait.counters SET value = r_pos, log = v_log WHERE name = 'pos';
			IF v_behind THEN
				PERFORM plait.catch_up(1000);
			END IF;
		END IF;

		IF cardinality(p_b_pin) > 0 THEN
			INSERT INTO plait.pins SELECT x.pin, x.hash FROM unnest(p_b_pin, p_pin_pin, p_pin_hash) x(b, pin, hash)
				WHERE x.b BETWEEN v_lo AND v_hi ON CONFLICT DO NOTHING;
		END IF;
		IF cardinality(p_b_unpin) > 0 THEN
			DELETE FROM plait.pins WHERE pin = ANY (ARRAY(SELECT x.pin FROM unnest(p_b_unpin, p_unpin_pin) x(b, pin)
				WHERE x.b BETWEEN v_lo AND v_hi));
		END IF;
		v_lo := v_hi + 1;
		v_hi := v_lo;
	EXCEPTION WHEN SQLSTATE 'PL001' OR SQLSTATE 'PL002' OR SQLSTATE 'PL003' OR SQLSTATE 'PL004' OR unique_violation THEN
		r_pos := v_pos;
		IF v_one THEN
			r_results[v_lo] := SQLSTATE || ' ' || SQLERRM;
			v_lo := v_lo + 1;
		END IF;
		v_hi := v_lo;
	END;
	END LOOP;
	-- Whoever had this group before us, and was not heard, has left its id: then this fails.
	INSERT INTO plait.applied VALUES (p_id, v_now, r_results, r_pos);
END $$;

-- This is how version 3 called it. Processes that were open when the schema changed go on so.
CREATE OR REPLACE FUNCTION plait.commit(
	p_key bigint, p_id bytea, p_again boolean, p_n int, p_rounds int, p_rest jsonb,
	p_b_fence int[], p_fence_name text[], p_fence_token bigint[],
	p_b_object int[], p_object_hash bytea[], p_object_kind int[], p_object_size bigint[], p_object_body bytea[],
	p_object_loc text[], p_object_again boolean[],
	p_b_ref int[], p_ref_table text[], p_ref_row text[], p_ref_hash bytea[],
	p_b_thread int[], p_thread_round int[], p_thread_swap boolean[], p_from_head bytea[], p_from_status text[], p_from_wanted text[],
	p_thread_id text[], p_thread_task text[], p_thread_root text[], p_thread_short text[], p_thread_kind text[],
	p_thread_workspace text[], p_thread_bundle bytea[], p_thread_status text[], p_thread_wanted text[], p_thread_head bytea[],
	p_thread_names bytea[], p_thread_row bytea[],
	p_b_attempt int[], p_attempt_round int[], p_attempt_from text[], p_attempt_id text[], p_attempt_thread text[],
	p_attempt_n bigint[], p_attempt_origin bytea[], p_attempt_status text[], p_attempt_names bytea[], p_attempt_row bytea[],
	p_b_event int[], p_event_ts bigint[], p_event_type text[], p_event_task text[], p_event_thread text[],
	p_event_instance text[], p_event_attempt text[], p_event_payload bytea[],
	p_b_pin int[], p_pin_pin text[], p_pin_hash bytea[],
	p_b_unpin int[], p_unpin_pin text[],
	OUT r_results text[], OUT r_pos bigint
)
LANGUAGE sql AS $$
	SELECT c.r_results, c.r_pos FROM plait.commit(
		p_key, p_id, p_again, p_n, p_rounds, p_rest,
		p_b_fence, p_fence_name, p_fence_token,
		p_b_object, p_object_hash, p_object_kind, p_object_size, p_object_body,
		p_object_loc, p_object_again,
		p_b_ref, p_ref_table, p_ref_row, p_ref_hash,
		p_b_thread, p_thread_round, p_thread_swap, p_from_head, p_from_status, p_from_wanted,
		p_thread_id, p_thread_task, p_thread_root, p_thread_short, p_thread_kind,
		p_thread_workspace, p_thread_bundle, p_thread_status, p_thread_wanted, p_thread_head,
		p_thread_names, p_thread_row,
		p_b_attempt, p_attempt_round, p_attempt_from, p_attempt_id, p_attempt_thread,
		p_attempt_n, p_attempt_origin, p_attempt_status, p_attempt_names, p_attempt_row,
		p_b_event, p_event_ts, p_event_type, p_event_task, p_event_thread,
		p_event_instance, p_event_attempt, p_event_payload, NULL, NULL, NULL, NULL, NULL, NULL,
		p_b_pin, p_pin_pin, p_pin_hash,
		p_b_unpin, p_unpin_pin) c
$$;
