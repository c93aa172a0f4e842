package cli

import (
	"bytes"
	"context"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// usage: bounded TOKENS TURN: checks the recorded requests of the only task. None is longer than its first one, which
// has an empty conversation, that many tokens, and a turn of TURN bytes; there is a summary, and the last request has
// it.
func boundedRequests(ts *testscript.TestScript, neg bool, args []string) {
	limit, err := strconv.Atoi(args[0])
	ts.Check(err)
	turn, err := strconv.Atoi(args[1])
	ts.Check(err)
	ctx, s := context.Background(), openRecord(ts)
	defer s.Close()
	rows, err := s.Threads(ctx, store.ThreadFilter{})
	ts.Check(err)
	attempts, err := s.Attempts(ctx, store.AttemptFilter{Thread: rows[0].ID})
	ts.Check(err)
	nodes := thread.NewReader(s)
	var sizes []int
	var last []byte
	for _, a := range attempts {
		if a.Calls.IsZero() {
			ts.Fatalf("the requests of attempt %d are not recorded", a.N)
		}
		for x, err := range nodes.Exchanges(ctx, a.Calls) {
			ts.Check(err)
			sizes, last = append(sizes, len(x.Body)), x.Body
		}
	}
	for i, n := range sizes {
		if most := sizes[0] + 4*limit + turn; n > most {
			ts.Fatalf("request %d has %d bytes, at most %d are expected of: %v", i+1, n, most, sizes)
		}
	}
	summary := dag.Hash{}
	for step, err := range nodes.Walk(ctx, rows[0].Head) {
		ts.Check(err)
		if summary.IsZero() {
			summary = step.State.Compact
		}
	}
	if summary.IsZero() {
		ts.Fatalf("nothing was summarized: %v", sizes)
	}
	text, err := nodes.Text(ctx, summary)
	ts.Check(err)
	quoted, err := dag.Marshal(text)
	ts.Check(err)
	if !bytes.Contains(last, bytes.Trim(quoted, `"`)) {
		ts.Fatalf("the last request does not have the summary %q:\n%s", text, last)
	}
}
