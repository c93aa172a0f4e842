package main

import (
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/verify"
)

// logs measures verifying the log of a record.
func (b *bench) logs(ctx context.Context) error {
	const total, batch = 100_000, 1000
	s, _, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	for n := 0; n < total; {
		var events store.Batch
		for range batch {
			n++
			row := store.Thread{ID: fmt.Sprintf("01K%023d", n%20), Task: fmt.Sprintf("01K%023d", n%20)}
			a := store.Attempt{ID: fmt.Sprint(row.ID, ".", n), Thread: row.ID}
			e := event.OfAttempt(row, a, int64(n), event.AttemptCompleted{Role: "worker", Step: dag.Sum([]byte(a.ID)), N: n,
				Status: "done", Usage: store.Usage{InputTokens: 12345, OutputTokens: 678}})
			proof := store.Batch{Threads: []store.ThreadChange{{Row: row}}, Attempts: []store.AttemptChange{{Row: a}},
				Events: []store.Event{e}}
			proof.Prove()
			events.Events = append(events.Events, proof.Events[0])
		}
		if err := s.Commit(ctx, events); err != nil {
			return err
		}
	}
	entries, err := s.Entries(ctx, 0, 0)
	if err != nil {
		return err
	}
	var texts [][]byte
	size := 0
	for _, e := range entries {
		texts = append(texts, e.Event.Entry())
		size += len(texts[len(texts)-1])
	}
	entries = nil
	used := processor()
	for _, text := range texts {
		dag.Sum(text)
	}
	floor := processor() - used
	texts = nil
	used = processor()
	for after := int64(0); after < total; after += batch {
		if _, err := s.Entries(ctx, after, batch); err != nil {
			return err
		}
	}
	read := processor() - used
	used = processor()
	r, err := verify.Entries(ctx, verify.Config{Store: s})
	if err != nil {
		return err
	}
	cpu := processor() - used
	if !r.OK() {
		return fmt.Errorf("the log: %s", r.Problems[0].What)
	}
	times := cpu.Seconds() / (read + floor).Seconds()
	row(fmt.Sprintf("verify of a log of %d entries of %d bytes", total, size/total),
		atMost(2, times, " × reading and hashing their bytes"),
		"%d ms of CPU, **%.2f×** reading (%d ms) and hashing (%d ms) their bytes, **%.1f×** hashing alone", cpu.Milliseconds(),
		times, read.Milliseconds(), floor.Milliseconds(), cpu.Seconds()/floor.Seconds())
	return nil
}
