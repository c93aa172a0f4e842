package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/store"
)

// A streamEvent is an event of a stream.
type streamEvent struct{ id, kind, data string }

// A follower reads a stream.
type follower struct {
	t    testing.TB
	body io.ReadCloser
	in   *bufio.Reader
	end  context.CancelFunc
}

// follow opens a stream; last is Last-Event-ID, "" for none.
func (s *site) follow(query, last string) *follower {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.host+"/api/v1/events"+query, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := (&http.Client{Jar: s.client.Jar, Transport: s.client.Transport}).Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("stream: %s %v", res.Status, res.Header)
	}
	f := &follower{s.t, res.Body, bufio.NewReader(res.Body), cancel}
	s.t.Cleanup(f.close)
	return f
}

func (f *follower) close() {
	f.end()
	f.body.Close()
}

// next reads an event; io.EOF at the end.
func (f *follower) next() (streamEvent, error) {
	var ev streamEvent
	for {
		l, err := f.in.ReadString('\n')
		if err != nil {
			return ev, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(l, "\n"), ": ")
		switch name {
		case "":
			return ev, nil
		case "id":
			ev.id = value
		case "event":
			ev.kind = value
		case "data":
			ev.data = value
		}
	}
}

// until reads events until one of the given kind, which is the last one returned.
func (f *follower) until(kind string) []streamEvent {
	f.t.Helper()
	var out []streamEvent
	stop := time.AfterFunc(patience, f.end)
	defer stop.Stop()
	for {
		ev, err := f.next()
		if err != nil {
			f.t.Fatalf("stream ended before %s, after %d events: %v", kind, len(out), err)
		}
		if ev.kind != "ready" && ev.kind != "beat" {
			out = append(out, ev)
		}
		if ev.kind == kind {
			return out
		}
	}
}

// journal returns the events that a filter selects, as a stream sends them.
func (h *house) journal(f store.EventFilter) []streamEvent {
	h.t.Helper()
	events, err := h.store.Events(h.t.Context(), 0, f)
	if err != nil {
		h.t.Fatal(err)
	}
	var out []streamEvent
	for _, ev := range events {
		data, _ := json.Marshal(ev)
		out = append(out, streamEvent{strconv.FormatInt(ev.Pos, 10), ev.Type, string(data)})
	}
	return out
}

func same(t *testing.T, what string, want, got []streamEvent) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("%s: %d events, want %d; they differ from %d on", what, len(got), len(want), i)
		}
	}
}

// chatter returns an agent that asks for another round n times.
func chatter(n int) map[string]scripted {
	more := make([]string, n)
	for i := range more {
		more[i] = fmt.Sprintf("---\n$status: more\n---\nThe %dth.", i)
	}
	return map[string]scripted{"work": say(append(more, "---\n$status: done\n---\nOver.")...)}
}

// TestStream follows a running task, and reconnects at random positions.
func TestStream(t *testing.T) {
	h := newHouse(t, chatter(40))
	s := h.open("")
	row := h.begin(chatty, "talk")
	var drive sync.WaitGroup
	drive.Go(func() {
		if row, err := h.controller().Drive(t.Context(), row.ID, resume); err != nil || row.Status != store.Completed {
			t.Errorf("it is %s %+v: %v", row.Status, row.Reason, err)
		}
	})
	var all []streamEvent
	last, random := "0", rand.New(rand.NewPCG(1, 2))
	for over := false; !over; {
		f := s.follow("", last)
		for range 1 + random.IntN(20) {
			stop := time.AfterFunc(patience, f.end)
			ev, err := f.next()
			if stop.Stop(); err != nil {
				t.Fatal(err, last)
			}
			if last = ev.id; ev.kind != "ready" && ev.kind != "beat" {
				all = append(all, ev)
			}
			if over = ev.kind == "task.completed"; over {
				break
			}
		}
		f.close()
	}
	drive.Wait()
	want := h.journal(store.EventFilter{})
	same(t, "with reconnects", want[:len(all)], all)
	if len(all) < 100 {
		t.Errorf("only %d events", len(all))
	}
	// Filters, and ?after= for clients that cannot send Last-Event-ID.
	for query, f := range map[string]store.EventFilter{
		"?after=0&task=" + row.ID:                             {Task: row.ID},
		"?after=0&thread=" + row.ID + "&type=task.completed":  {Types: []string{"task.completed"}},
		"?after=0&type=attempt.completed&type=task.completed": {Types: []string{"attempt.completed", "task.completed"}},
	} {
		got := s.follow(query, "").until("task.completed")
		same(t, query, h.journal(f)[:len(got)], got)
	}
	if ev, err := s.follow("?after=0", "999999999").next(); err != nil || ev.kind != "ready" ||
		ev.id != want[len(want)-1].id {
		t.Errorf("a reader of another record: %+v: %v", ev, err)
	}
}

// emit adds n events to the journal.
func (h *house) emit(row store.Thread, n int, kind string) {
	h.t.Helper()
	events := make([]store.Event, n)
	for i := range events {
		events[i] = store.Event{Type: kind, Task: row.ID, Thread: row.ID, TS: 1,
			Payload: json.RawMessage(fmt.Sprintf(`{"n":%d,"pad":%q}`, i, strings.Repeat("x", 200)))}
	}
	if err := h.store.Commit(h.t.Context(), store.Batch{Events: events}); err != nil {
		h.t.Fatal(err)
	}
}

// TestBehind follows from further back than the hub's ring, and reads slowly.
func TestBehind(t *testing.T) {
	h := newHouse(t, nil)
	row := h.begin(chatty, "talk")
	s := h.open("")
	h.emit(row, ringSize+2*readAtOnce+7, "agent.item")
	slow := s.follow("", "0")
	quick := s.follow("?after=0&type=notes.read", "")
	var read sync.WaitGroup
	read.Go(func() {
		for range 30 {
			h.emit(row, 100, "agent.item")
		}
		h.emit(row, 1, "notes.read")
	})
	var got []streamEvent
	for {
		ev, err := slow.next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.kind == "ready" {
			continue
		}
		if got = append(got, ev); ev.kind == "notes.read" {
			break
		}
		if len(got)%1000 == 0 {
			time.Sleep(10 * time.Millisecond) // slower than events arrive
		}
	}
	read.Wait()
	same(t, "far behind", h.journal(store.EventFilter{}), got)
	same(t, "filtered, far behind", h.journal(store.EventFilter{Types: []string{"notes.read"}}), quick.until("notes.read"))
}

// TestStuckReader checks that a client that does not read delays no other.
func TestStuckReader(t *testing.T) {
	h := newHouse(t, nil)
	row := h.begin(chatty, "talk")
	s := h.open("")
	conn, err := net.Dial("tcp", s.host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /api/v1/events?after=0 HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\n\r\n", s.host, s.cookie())
	other := s.follow("", "0")
	for range 60 { // more than the buffers of a connection hold
		h.emit(row, 1000, "agent.item")
	}
	h.emit(row, 1, "notes.read")
	if got := other.until("notes.read"); len(got) < 60000 {
		t.Errorf("%d events", len(got))
	}
	s.stop() // within five seconds, even though the client does not read
}

// TestFollowers checks that many followers cause no more reads of the store than one.
func TestFollowers(t *testing.T) {
	h := newHouse(t, nil)
	row := h.begin(chatty, "talk")
	s := h.open("")
	pos, err := h.store.Wait(t.Context(), -1)
	if err != nil {
		t.Fatal(err)
	}
	var all []*follower
	for i := range 20 {
		query := ""
		if i%2 == 1 {
			query = "?task=" + row.ID
		}
		all = append(all, s.follow(query, strconv.FormatInt(pos, 10)))
	}
	for _, f := range all {
		if ev, err := f.next(); err != nil || ev.kind != "ready" {
			t.Fatalf("%+v: %v", ev, err)
		}
	}
	reads, commits := h.store.counts()
	for range 50 {
		h.emit(row, 3, "agent.item")
	}
	h.emit(row, 1, "notes.read")
	for i, f := range all {
		if got := f.until("notes.read"); len(got) != 151 {
			t.Errorf("follower %d has %d events", i, len(got))
		}
	}
	nowReads, nowCommits := h.store.counts()
	// The hub reads once for each batch, and once more to find that there are no more.
	if made := nowCommits - commits; nowReads-reads > made+2 {
		t.Errorf("the journal was read %d times for %d batches and 20 followers", nowReads-reads, made)
	}
}

// TestLate checks that a client that connects before the hub has begun to read misses nothing.
func TestLate(t *testing.T) {
	h := newHouse(t, nil)
	row := h.begin(chatty, "talk")
	h.emit(row, 5, "agent.item")
	hub := newHub(h.store)
	events, at, more, err := hub.after(t.Context(), 0, store.EventFilter{})
	if err != nil || len(events) != 0 || at != 0 {
		t.Fatalf("%d events at %d: %v", len(events), at, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { hub.run(ctx) })
	select {
	case <-more:
	case <-time.After(patience):
		t.Fatal("nobody is told that there are events")
	}
	if events, _, _, err = hub.after(t.Context(), 0, store.EventFilter{}); err != nil || len(events) != 6 {
		t.Errorf("%d events: %v", len(events), err)
	}
	cancel()
	run.Wait()
	if _, _, _, err = hub.after(t.Context(), 0, store.EventFilter{}); err == nil {
		t.Error("a hub that has ended goes on")
	}
}

// TestEnd checks that streams have heartbeats, and end cleanly with the server.
func TestEnd(t *testing.T) {
	h := newHouse(t, nil)
	h.beat = 20 * time.Millisecond
	s := h.open("")
	f := s.follow("", "")
	for _, want := range []string{"ready", "beat", "beat"} {
		if ev, err := f.next(); err != nil || ev.kind != want || ev.id == "" {
			t.Fatalf("%+v, want %s: %v", ev, want, err)
		}
	}
	done := make(chan []streamEvent)
	go func() {
		var got []streamEvent
		for {
			ev, err := f.next()
			if err != nil {
				done <- got
				return
			}
			got = append(got, ev)
		}
	}()
	s.stop()
	if got := <-done; len(got) == 0 || got[len(got)-1].kind != "done" {
		t.Errorf("it ended with %v", got)
	}
}
