package taskdir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/store"
)

// journal returns the expected content of events.jsonl, formatted independently of the code.
func (w *world) journal() string {
	events, err := w.store.Events(w.t.Context(), 0, store.EventFilter{Task: taskID})
	if err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	for i, ev := range events {
		if ev.Seq != int64(i+1) {
			w.t.Fatalf("event %d has seq %d", i+1, ev.Seq)
		}
		payload := string(ev.Payload)
		if payload == "" {
			payload = "null"
		}
		fmt.Fprintf(&b, `{"seq":%d,"ts":%d,"type":%q,"task":%q,"thread":%q,"instance":%q,"attempt":%q,"payload":%s}`+"\n",
			ev.Seq, ev.TS, ev.Type, ev.Task, ev.Thread, ev.Instance, ev.Attempt, payload)
	}
	return b.String()
}

// TestEventsAgreeWithTheJournal does what people, agents and crashes can do to
// events.jsonl, in any order: after a drawing, it agrees with the journal.
func TestEventsAgreeWithTheJournal(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		b := w.board()
		name := w.path(eventsFile)
		write := func(data []byte) {
			if err := os.WriteFile(name, data, 0o644); err != nil {
				rt.Fatal(err)
			}
		}
		read := func() []byte {
			data, err := os.ReadFile(name)
			if err != nil {
				rt.Fatal(err)
			}
			return data
		}
		w.draw(b)
		rt.Repeat(map[string]func(*rapid.T){
			"happens": func(rt *rapid.T) {
				var events []store.Event
				for range rapid.IntRange(1, 5).Draw(rt, "n") {
					payload, err := json.Marshal(rapid.String().Draw(rt, "text"))
					if err != nil {
						rt.Fatal(err)
					}
					events = append(events, w.event("x", string(payload)), store.Event{Type: "other", Task: "another"})
				}
				w.commit(store.Batch{Events: events})
			},
			"other process": func(*rapid.T) { b = w.board() },
			"cut": func(rt *rapid.T) {
				data := read()
				write(data[:rapid.IntRange(0, len(data)).Draw(rt, "at")])
				b.Forget(taskID)
			},
			"append": func(rt *rapid.T) {
				write(append(read(), rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(rt, "bytes")...))
				b.Forget(taskID)
			},
			"edit": func(rt *rapid.T) {
				data := read()
				if len(data) > 0 {
					data[rapid.IntRange(0, len(data)-1).Draw(rt, "at")] ^= 1
				}
				write(data)
				b.Forget(taskID)
			},
			"edit and go on": func(rt *rapid.T) { // without Forget: found at the next event
				write(append(read(), '\n'))
				w.commit(store.Batch{Events: []store.Event{w.event("y", `{}`)}})
			},
			"remove": func(rt *rapid.T) {
				if err := os.Remove(name); err != nil {
					rt.Fatal(err)
				}
				b.Forget(taskID)
			},
			"": func(rt *rapid.T) {
				w.draw(b)
				want := w.journal()
				if got := string(read()); got != normal(rt, want) {
					rt.Fatalf("events.jsonl says\n%s\nthe journal\n%s", got, want)
				}
			},
		})
	})
}

// normal formats each line of the journal as encoding/json does, which differs from %q.
func normal(rt interface{ Fatal(...any) }, text string) string {
	var out bytes.Buffer
	for line := range strings.Lines(text) {
		if err := json.Compact(&out, []byte(line)); err != nil {
			rt.Fatal(err)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// TestHalfALine simulates a crash in the middle of appending: the file is continued, not
// rewritten.
func TestHalfALine(t *testing.T) {
	w := newWorld(t)
	w.commit(store.Batch{Events: []store.Event{w.event("second", `{"text":"a <b> & c"}`)}})
	w.draw(w.board())
	whole := w.file(eventsFile)
	before, err := os.Stat(w.path(eventsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range []int{1, 10, len(whole) - 1, len(whole)} {
		if err := os.Truncate(w.path(eventsFile), int64(len(whole)-left)); err != nil {
			t.Fatal(err)
		}
		w.draw(w.board())
		after, err := os.Stat(w.path(eventsFile))
		if err != nil || w.file(eventsFile) != whole || !os.SameFile(before, after) {
			t.Errorf("with %d bytes missing it became %q, %v", left, w.file(eventsFile), err)
		}
	}
}

func TestPayloadsThatAreNoJSON(t *testing.T) {
	for payload, want := range map[string]string{"": "null", "{ \"a\" :\n1}": `{"a":1}`, "{broken\n": `"{broken\n"`, "\"\u2028<\"": "\"\u2028<\""} {
		var buf bytes.Buffer
		if err := appendLine(&buf, store.Event{Seq: 1, Payload: json.RawMessage(payload)}); err != nil {
			t.Fatal(err)
		}
		if got := buf.String(); strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, `"payload":`+want+"}\n") {
			t.Errorf("payload %q is written %q", payload, got)
		}
	}
}
