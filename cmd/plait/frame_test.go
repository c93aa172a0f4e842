package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
)

// A screen that is watched: events at a time, and what is drawn then.
func newWatched() *liveView {
	at := time.UnixMilli(1_700_000_000_000)
	return &liveView{
		narrator: newNarrator(), task: "T", out: io.Discard, most: 4, began: at,
		now:  func() time.Time { return at.Add(75 * time.Second) },
		size: func() (int, int) { return 80, 24 },
		plan: func(dag.Hash) (*flow.Plan, bool) {
			return &flow.Plan{Actions: []flow.Action{{ID: "a"}, {ID: "b"}, {ID: "c", DependsOn: []string{"a"}}}}, true
		},
	}
}

func tell(thread, attempt, typ string, payload any) store.Event {
	data, err := json.Marshal(payload)
	if err != nil {
		panic(err)
	}
	return store.Event{TS: 1_700_000_000_000, Task: "T", Thread: thread, Instance: "i", Attempt: attempt, Type: typ, Payload: data}
}

type m = map[string]any

func started(thread, role string) store.Event {
	return tell(thread, thread+".1", "attempt.started", m{"role": role, "agent": "codex"})
}

// dispatch are the events up to three actions of which one is at work.
func dispatch() []store.Event {
	return []store.Event{
		tell("T", "", "controller.state.changed", m{"state": "monitoring"}),
		tell("T", "", "thread.forked", m{"fork": "planner", "join": "__join__", "head": dag.Sum([]byte("p")), "paths": []string{"a", "b", "c"}, "threads": []string{"TA", "TB", "TC"}}),
		tell("TA", "", "thread.started", m{"kind": "worker", "parent": m{"thread": "T"}}),
		started("TA", "a"),
		tell("TA", "TA.1", "agent.item", m{"role": "a", "items": []m{{"kind": "command", "id": "x", "phase": "started", "text": "make test"}, {"kind": "usage", "usage": m{"inputTokens": 1500, "outputTokens": 20}}}}),
	}
}

func TestFrame(t *testing.T) {
	ask := func(id string) store.Event {
		return tell("TB", "TB.1", "gate.blocked", m{"gate": id, "kind": "input", "node": "b", "question": "Which port?"})
	}
	for _, c := range []struct {
		name       string
		cols, rows int
		events     []store.Event
		want       []string
	}{
		{"nothing yet", 80, 24, nil, []string{"running · 0/4 at work · 1:15"}},
		{"at work", 80, 24, dispatch(), []string{
			"monitoring · 0/3 actions done · 1/4 at work · 1.5k tokens · 1:15",
			"a  codex  $ make test                                        1.5k tokens   1:15",
			"2 actions wait, 1 of them for others",
		}},
		{"narrow", 40, 24, dispatch(), []string{
			"monitoring · 0/3 actions done · 1:15",
			"a  $ make test                     1:15",
			"2 actions wait, 1 of them for others",
		}},
		{"very narrow", 12, 24, dispatch(), []string{"monitoring", "a   1:15", "2 actions …"}},
		{"low", 80, 3, dispatch(), []string{"monitoring · 0/3 actions done · 1/4 at work · 1.5k tokens · 1:15"}},
		{"asks", 80, 24, append(dispatch(), ask("g-1234567890")), []string{
			"monitoring · 0/3 actions done · 1 gate waits for you · 1/4 at work · 1:15",
			`? b: Which port?  plait answer g-1234567890 -m "…"`,
			"a  codex  $ make test                                        1.5k tokens   1:15",
			"2 actions wait, 1 of them for others",
		}},
		{"is answered", 80, 24, append(dispatch(), ask("g-1"), tell("TB", "", "gate.answered", m{"gate": "g-1"})), []string{
			"monitoring · 0/3 actions done · 1/4 at work · 1.5k tokens · 1:15",
			"a  codex  $ make test                                        1.5k tokens   1:15",
			"2 actions wait, 1 of them for others",
		}},
		{"one is done", 80, 24, append(dispatch(), tell("TA", "TA.1", "attempt.completed", m{"role": "a", "status": "success", "usage": m{"inputTokens": 2000, "outputTokens": 0}}),
			tell("TA", "", "thread.ended", m{"status": "completed"}), tell("TB", "", "thread.ended", m{"status": "failed"})), []string{
			"monitoring · 1/3 actions done · 1 not · 0/4 at work · 2.0k tokens · 1:15",
			"1 action waits for a free place",
		}},
		{"blocked", 80, 24, append(dispatch(), tell("T", "", "controller.state.changed", m{"state": "blocked"})), []string{
			"blocked · 0/3 actions done · 1/4 at work · 1.5k tokens · 1:15",
			"a  codex  $ make test                                        1.5k tokens   1:15",
			"2 actions wait, 1 of them for others",
		}},
		{"hostile and wide", 60, 24, []store.Event{started("T", "\x1b[2J日本"), tell("T", "T.1", "agent.item", m{"items": []m{
			{"kind": "message", "phase": "completed", "text": "日本語日本語日本語日本語日本語日本語\u202e\x1b]0;t\x07"}}})}, []string{
			"running · 1/4 at work · 1:15",
			`\x1b[2J日本  日本語日本語日本語日本語…                 1:15`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newWatched()
			for _, ev := range c.events {
				l.event(ev)
			}
			if diff := cmp.Diff(c.want, l.frame(c.cols, c.rows)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// However many are at work and ask, what moves is never more than the terminal holds.
func TestFrameFits(t *testing.T) {
	for cols := 1; cols <= 120; cols += 7 {
		for rows := 1; rows <= 40; rows += 3 {
			for _, n := range []int{0, 1, 5, 100} {
				l := newWatched()
				for _, ev := range dispatch() {
					l.event(ev)
				}
				for i := range n {
					id := fmt.Sprintf("W%d", i)
					l.event(started(id, "worker-with-a-long-name"))
					l.event(tell(id, id+".1", "gate.blocked", m{"gate": "g-" + id, "kind": "approval", "question": strings.Repeat("why 何 ", 40)}))
				}
				lines := l.frame(cols, rows)
				if len(lines) >= max(rows, 2) {
					t.Fatalf("%d lines on %d rows", len(lines), rows)
				}
				for _, line := range lines {
					if cells(line) >= max(cols, 2) {
						t.Fatalf("%d columns of %d: %q", cells(line), cols, line)
					}
				}
				if got := strings.Join(lines, "\n"); n == 100 && rows > 10 && cols > 60 && (!strings.Contains(got, "more at work") || !strings.Contains(got, "more waiting: plait gate list")) {
					t.Fatalf("what is folded is not counted:\n%s", got)
				}
			}
		}
	}
}

func TestDrawIsOneWrite(t *testing.T) {
	var out writes
	l := newWatched()
	l.out = &out
	l.draw()
	l.draw()
	for _, ev := range dispatch() {
		l.event(ev)
	}
	l.draw()
	l.size = func() (int, int) { return 40, 24 }
	l.draw()
	l.clear()
	want := []string{
		"\x1b[Krunning · 0/4 at work · 1:15\n",
		"\x1b[1A\r\x1b[Jcontroller   monitoring\nplanner sets a b c to work\n" +
			"\x1b[Kmonitoring · 0/3 actions done · 1/4 at work · 1.5k tokens · 1:15\n" +
			"\x1b[Ka  codex  $ make test                                        1.5k tokens   1:15\n" +
			"\x1b[K2 actions wait, 1 of them for others\n",
		// The terminal has broken the two longer lines in two.
		"\x1b[5A\r\x1b[J\x1b[Kmonitoring · 0/3 actions done · 1:15\n\x1b[Ka  $ make test                     1:15\n\x1b[K2 actions wait, 1 of them for others\n",
		"\x1b[3A\r\x1b[J",
	}
	if diff := cmp.Diff(want, []string(out)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// writes are what was written, each time.
type writes []string

func (w *writes) Write(p []byte) (int, error) { *w = append(*w, string(p)); return len(p), nil }
