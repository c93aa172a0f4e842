package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/dag"
)

// checks are queries whose every result is a line about something wrong.
var checks = []string{
	`SELECT 'events of task ' || task || ' have a gap: ' || count(*) || ' events, numbered '
			|| min(seq) || ' to ' || max(seq)
		FROM plait.events GROUP BY task HAVING min(seq) <> 1 OR max(seq) <> count(*)`,
	`SELECT 'events have a gap before position ' || pos
		FROM (SELECT pos, lag(pos, 1, 0::bigint) OVER (ORDER BY pos) AS before FROM plait.events) e
		WHERE pos <> before + 1 AND pos > (SELECT value FROM plait.counters WHERE name = 'floor') + 1`,
	`SELECT 'the counter of positions is behind the events'
		WHERE coalesce((SELECT max(pos) FROM plait.events), 0) >
			coalesce((SELECT value FROM plait.counters WHERE name = 'pos'), -1)`,
	`SELECT 'the counter of task ' || e.task || ' is behind its events'
		FROM (SELECT task, max(seq) AS seq FROM plait.events GROUP BY task) e LEFT JOIN plait.tasks t USING (task)
		WHERE t.seq IS DISTINCT FROM e.seq`,
	`SELECT 'object ' || encode(hash, 'hex') || ' has neither bytes nor a place' FROM plait.objects
		WHERE body IS NULL AND loc IS NULL`,
	`SELECT 'object ' || encode(hash, 'hex') || ' has ' || length(body) || ' bytes, its row says ' || size
		FROM plait.objects
		WHERE length(body) <> size AND NOT (kind = 1 AND substr(body, 1, 1) = '\x01')`,
	`SELECT 'object ' || encode(o.hash, 'hex') || ': ' || o.loc || ' has ' || coalesce(c.size, 0) ||
			' bytes, its row says ' || o.size
		FROM plait.objects o
		LEFT JOIN (SELECT loc, sum(length(data)) AS size FROM plait.chunks GROUP BY loc) c ON c.loc = o.loc
		WHERE o.loc LIKE '` + chunkPrefix + `%' AND o.size <> coalesce(c.size, 0)`,
}

// Check returns a line for everything that is wrong with the tables or the bucket next to
// them. It reads no bytes: Get and Open check those.
func (s *Store) Check(ctx context.Context) (lines []string, err error) {
	for _, q := range checks {
		found, err := many(ctx, s.reads, "tables", query{sql: q, whole: true}, func(rows pgx.Rows) (line string, err error) {
			err = rows.Scan(&line)
			return line, err
		})
		if err != nil {
			return nil, fmt.Errorf("check store: %w", err)
		}
		lines = append(lines, found...)
	}
	more, err := s.checkBucket(ctx)
	if err != nil {
		return nil, fmt.Errorf("check store: %w", err)
	}
	return append(lines, more...), nil
}

// checkBucket compares rows with a listing. A mismatch is looked at again before it is
// reported: it may have been swept or staged meanwhile.
func (s *Store) checkBucket(ctx context.Context) (lines []string, err error) {
	type place struct {
		loc  string
		size int64
	}
	q := query{sql: "SELECT loc, size FROM plait.objects", whole: true}
	q.and("loc NOT LIKE '" + chunkPrefix + "%'")
	places, err := many(ctx, s.reads, "places", q, func(rows pgx.Rows) (p place, err error) {
		err = rows.Scan(&p.loc, &p.size)
		return p, err
	})
	if err != nil {
		return nil, err
	}
	if s.cfg.Bucket == nil {
		if len(places) > 0 {
			lines = append(lines, fmt.Sprintf("%d objects are stored in a bucket, but none is configured", len(places)))
		}
		return lines, nil
	}
	sizes := map[string]int64{}
	for k, err := range s.cfg.Bucket.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		if _, _, ok := placed(k.Key); !ok && !strings.HasPrefix(k.Key, Probes) {
			lines = append(lines, fmt.Sprintf("%s in the bucket does not belong to Plait", k.Key))
		}
		sizes[k.Key] = k.Size
	}
	for _, p := range places {
		h, _, _ := placed(p.loc)
		size, ok := sizes[p.loc]
		if ok && size == p.size {
			continue
		}
		rows, err := s.look(ctx, []dag.Hash{h})
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 || rows[0].loc != p.loc {
			continue
		}
		if !ok {
			lines = append(lines, fmt.Sprintf("object %s: %s is not in the bucket", h, p.loc))
		} else {
			lines = append(lines, fmt.Sprintf("object %s: %s has %d bytes, its row says %d", h, p.loc, size, p.size))
		}
	}
	return lines, nil
}
