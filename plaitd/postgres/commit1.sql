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
	p_event_instance text[], p_event_attempt text[], p_event_payload bytea[],
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
	v_seq bigint;
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
		IF v_events > 0 THEN
			UPDATE plait.counters SET value = value + v_events WHERE name = 'pos' RETURNING value INTO r_pos;
		ELSE
			SELECT value INTO r_pos FROM plait.counters WHERE name = 'pos';
		END IF;
		v_pos := r_pos - v_events;

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

		IF v_events = 0 THEN
			NULL;
		ELSIF v_all AND p_event_task[1] = ALL (p_event_task) THEN -- as most batches are: of one task, and alone
			INSERT INTO plait.tasks AS t (task, seq) VALUES (p_event_task[1], v_events)
				ON CONFLICT (task) DO UPDATE SET seq = t.seq + excluded.seq RETURNING t.seq - v_events INTO v_seq;
			INSERT INTO plait.events
				SELECT v_pos + x.at, v_seq + x.at, x.ts, x.type, x.task, x.thread, x.instance, x.attempt, x.payload
				FROM unnest(p_event_ts, p_event_type, p_event_task, p_event_thread, p_event_instance, p_event_attempt,
					p_event_payload) WITH ORDINALITY x(ts, type, task, thread, instance, attempt, payload, at);
		ELSE
			WITH x AS (
				SELECT e.*, row_number() OVER (PARTITION BY e.task ORDER BY e.ord) AS nth, count(*) OVER (PARTITION BY e.task) AS total,
					 row_number() OVER (ORDER BY e.ord) AS at
				FROM unnest(p_b_event, p_event_ts, p_event_type, p_event_task, p_event_thread, p_event_instance, p_event_attempt,
					p_event_payload) WITH ORDINALITY e(b, ts, type, task, thread, instance, attempt, payload, ord)
				WHERE e.b BETWEEN v_lo AND v_hi
			), n AS (
				INSERT INTO plait.tasks AS t (task, seq) SELECT x.task, count(*) FROM x GROUP BY x.task
				ON CONFLICT (task) DO UPDATE SET seq = t.seq + excluded.seq
				RETURNING t.task, t.seq
			)
			INSERT INTO plait.events
				SELECT v_pos + x.at, n.seq - x.total + x.nth,
					x.ts, x.type, x.task, x.thread, x.instance, x.attempt, x.payload
				FROM x JOIN n ON n.task = x.task;
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
