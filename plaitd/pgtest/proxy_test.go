package pgtest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/plaitd/pgtest"
)

// TestProxy watches the messages of a query, and then cuts, stalls and drops its answer.
func TestProxy(t *testing.T) {
	s := pgtest.Shared(t)
	url := s.Database(t)
	do(t, url, "CREATE TABLE x (n int)")
	p := pgtest.NewProxy(t, s)
	const insert = "INSERT INTO x VALUES (1)"
	c := connect(t, p.URL(url))
	var seen []string
	p.See(func(m pgtest.Message) pgtest.Act {
		seen = append(seen, m.String())
		return pgtest.Pass
	})
	if _, err := c.Exec(t.Context(), insert, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	p.See(nil)
	if want := []string{"frontend Q", "backend C", "backend Z"}; !slices.Equal(seen, want) {
		t.Errorf("seen: %q, want %q", seen, want)
	}
	tests := []struct {
		at     string
		act    pgtest.Act
		kept   bool
		isOpen bool // the connection, for the client
	}{
		{"frontend Q", pgtest.Cut, false, false},
		{"frontend Q", pgtest.Drop, false, true},
		{"frontend Q", pgtest.Stall, false, true},
		{"backend C", pgtest.Cut, true, false},
		{"backend C", pgtest.Drop, true, true},
		{"backend C", pgtest.Stall, true, true},
	}
	for _, x := range tests {
		t.Run(x.act.String()+" "+x.at, func(t *testing.T) {
			do(t, url, "TRUNCATE x")
			c := connect(t, p.URL(url))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p.See(func(m pgtest.Message) pgtest.Act {
				if m.String() != x.at {
					return pgtest.Pass
				}
				if x.act != pgtest.Cut {
					time.AfterFunc(50*time.Millisecond, cancel)
				}
				return x.act
			})
			_, err := c.Exec(ctx, insert, pgx.QueryExecModeSimpleProtocol)
			p.See(nil)
			if err == nil || errors.Is(err, context.Canceled) != x.isOpen {
				t.Errorf("got error %v", err)
			}
			want := "0"
			if x.kept {
				want = "1"
			}
			if got := ask(t, url, "SELECT count(*)::text FROM x"); got != want {
				t.Errorf("%s rows, want %s", got, want)
			}
		})
	}
}
