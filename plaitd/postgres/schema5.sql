-- No table changes.

-- waiting: as before, without what is to be tried again later: after a worker was not able to, or when a limit ends.
CREATE OR REPLACE VIEW plait.waiting AS
	WITH live AS MATERIALIZED (
		SELECT id, root, status, k.kept->'row' AS row,
			nullif(convert_from(decode(k.kept->'raw'->>1, 'base64'), 'UTF8'), '')::json AS options
		FROM plait.threads t, LATERAL (SELECT convert_from(t.row, 'UTF8')::json AS kept OFFSET 0) k
		WHERE status IN ('pending', 'running', 'blocked')
	), ready AS (
		SELECT (t.row->>'updatedAt')::numeric AS updated, r.options->'needs' AS needs FROM live t JOIN live r ON r.id = t.root
		WHERE t.status IN ('pending', 'running') AND r.options->>'on' = 'team'
		AND coalesce((t.row->'reason'->>'resetAt')::numeric, 0) <= extract(epoch FROM clock_timestamp()) * 1000
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
