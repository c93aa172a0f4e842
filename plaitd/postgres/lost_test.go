package postgres

import (
	"bytes"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// TestLostAnswerOfGroup loses the answer to a group of two batches whose next try is refused at the login: they may
// have been applied, so neither is applied by itself.
func TestLostAnswerOfGroup(t *testing.T) {
	server := pgtest.Start(t, pgtest.Config{})
	url := migratedOn(t, server)
	proxy := pgtest.NewProxy(t, server)
	s := open(t, Config{URL: proxy.URL(url), Beat: time.Hour, Look: time.Hour})
	admin := func(statement string) {
		if err := server.Admin(t.Context(), statement); err != nil {
			t.Error(err)
		}
	}
	conn, refused := 0, false
	proxy.See(func(m pgtest.Message) pgtest.Act {
		switch {
		case conn == 0 && !m.Back && bytes.Contains(m.Body, []byte("batch-a")):
			conn = m.Conn
		case m.Conn == conn && m.Back && m.Type == 'Z': // it is committed
			admin("ALTER ROLE plait NOLOGIN")
			return pgtest.Cut
		case conn != 0 && !refused && m.Back && m.Type == 'E':
			refused = true
			admin("ALTER ROLE plait LOGIN")
		}
		return pgtest.Pass
	})
	var rs []*request
	for _, text := range []string{"batch-a", "batch-b"} {
		c := ready(t, store.Batch{Events: []store.Event{{Type: text}}})
		rs = append(rs, &request{change: c, done: make(chan error, 1)})
	}
	s.apply(rs)
	proxy.See(nil)
	for _, r := range rs {
		if err := <-r.done; err == nil {
			t.Error("a batch is reported as applied although its answer was lost")
		}
	}
	if !refused {
		t.Error("the next try was not refused")
	}
	events, err := s.Events(t.Context(), 0, store.EventFilter{})
	if err != nil || len(events) != 2 {
		t.Errorf("two batches left %d events: %v", len(events), err)
	}
}
