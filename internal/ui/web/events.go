package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/plait-run/plait/internal/record/store"
)

// streamTime limits one write to a stream: a client that does not read is disconnected.
const streamTime = 10 * time.Second

// events streams the journal as server-sent events. The id of each is its position, so that a
// client that reconnects misses nothing.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	filter := store.EventFilter{Task: q.Get("task"), Thread: q.Get("thread"), Types: q["type"]}
	pos, err := s.from(r)
	if err != nil {
		return err
	}
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	write := func(format string, args ...any) error {
		if err := out.SetWriteDeadline(time.Now().Add(streamTime)); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return err
		}
		return out.Flush()
	}
	if r.Method == http.MethodHead {
		return nil
	}
	if write("retry: 1000\nid: %d\nevent: ready\ndata: {}\n\n", pos) != nil {
		return nil // the client has disconnected
	}
	beat := time.NewTicker(s.beat)
	defer beat.Stop()
	for {
		events, at, more, err := s.hub.after(r.Context(), pos, filter)
		if err != nil {
			if s.ended.Err() != nil {
				write("event: done\ndata: {}\n\n")
			}
			return nil // the client reconnects
		}
		pos = at
		for _, ev := range events {
			data, err := json.Marshal(ev)
			if err != nil || write("id: %d\nevent: %s\ndata: %s\n\n", ev.Pos, ev.Type, data) != nil {
				return nil
			}
		}
		select {
		case <-more:
		case <-beat.C:
			if write("id: %d\nevent: beat\ndata: {}\n\n", pos) != nil {
				return nil
			}
		case <-r.Context().Done():
			return nil
		case <-s.ended.Done():
			write("event: done\ndata: {}\n\n")
			return nil
		}
	}
}

// from returns the position after which a stream begins: the last one that the client received, the
// one that it requests, or the current one. A position in the future belongs to another record; the
// stream then begins now.
func (s *Server) from(r *http.Request) (int64, error) {
	now, err := s.cfg.Store.Wait(r.Context(), -1)
	if err != nil {
		return 0, err
	}
	said := r.Header.Get("Last-Event-ID")
	if said == "" {
		said = r.URL.Query().Get("after")
	}
	if said == "" {
		return now, nil
	}
	pos, err := strconv.ParseInt(said, 10, 64)
	if err != nil || pos < 0 {
		return 0, badRequest("a position is a number from 0, not %q", said)
	}
	return min(pos, now), nil
}
