-- No table changes. From here on leases of tasks that have ended are removed, and there is a view of what waits.

-- token: the highest token of a lease that was removed. Later leases of any name have higher ones.
INSERT INTO plait.counters VALUES ('token', 0);

-- acquire takes a lease that nobody holds, or that a dead process or the one who asks
-- has let go of: whoever had it with the token p_dead. It returns the token; or 0, and
-- who holds it with which token.
CREATE OR REPLACE FUNCTION plait.acquire(
	p_name text, p_handle text, p_dead bigint, p_key bigint, OUT r_token bigint, OUT r_holder text, OUT r_held bigint
) LANGUAGE plpgsql AS $$
BEGIN
	r_token := 0;
	SELECT handle, token INTO r_holder, r_held FROM plait.leases WHERE name = p_name;
	IF FOUND AND r_held <> p_dead AND plait.alive(r_holder) THEN
		RETURN;
	END IF;
	-- No commit is under way that has looked at the fence already.
	PERFORM pg_advisory_xact_lock(p_key);
	SELECT handle, token INTO r_holder, r_held FROM plait.leases WHERE name = p_name;
	IF FOUND AND r_held <> p_dead AND plait.alive(r_holder) THEN
		RETURN;
	END IF;
	IF NOT plait.alive(p_handle) THEN
		RAISE EXCEPTION 'this process has not been heard of' USING ERRCODE = 'PL005';
	END IF;
	INSERT INTO plait.leases AS l SELECT p_name, value + 1, p_handle FROM plait.counters WHERE name = 'token'
		ON CONFLICT (name) DO UPDATE SET token = l.token + 1, handle = excluded.handle
		RETURNING l.token INTO r_token;
END $$;

-- waiting: how many threads of a team's tasks continue by themselves and none drives, by the labels that a worker must
-- have, sorted, with commas between them and '' for none; and for how many seconds the first of them has not changed.
-- Paths of a plan that wait for others of it are among them: their rows do not say so.
-- It calls no function of plait: so a role that may read nothing else can read it.
CREATE VIEW plait.waiting AS
	WITH live AS MATERIALIZED (
		SELECT id, root, status, k.kept->'row' AS row,
			nullif(convert_from(decode(k.kept->'raw'->>1, 'base64'), 'UTF8'), '')::json AS options
		FROM plait.threads t, LATERAL (SELECT convert_from(t.row, 'UTF8')::json AS kept OFFSET 0) k
		WHERE status IN ('pending', 'running', 'blocked')
	), ready AS (
		SELECT (t.row->>'updatedAt')::numeric AS updated, r.options->'needs' AS needs FROM live t JOIN live r ON r.id = t.root
		WHERE t.status IN ('pending', 'running') AND r.options->>'on' = 'team'
		AND t.id NOT IN (SELECT row->'parent'->>'thread' FROM live WHERE row->'parent'->>'thread' IS NOT NULL)
		AND NOT EXISTS (SELECT 1 FROM plait.leases l JOIN plait.handles h ON h.id = l.handle
			WHERE l.name = 'thread-' || t.id AND h.until > extract(epoch FROM clock_timestamp()) * 1000)
	)
	SELECT coalesce(x.label, '') AS label, count(*) AS n,
		greatest(0, extract(epoch FROM clock_timestamp()) - min(r.updated) / 1000)::bigint AS oldest
	FROM ready r, LATERAL (
		SELECT string_agg(value, ',' ORDER BY value COLLATE "C") AS label FROM json_array_elements_text(r.needs)
	) x
	GROUP BY 1;
