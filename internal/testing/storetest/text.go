package storetest

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

var textTests = []test{
	{"a text with NUL or bad UTF-8 is refused in every row", badTexts},
	{"raw JSON and objects are bytes", rawBytes},
	{"names must be text", badNames},
}

// eachText calls visit with every string of v, settable, and where it is.
func eachText(v reflect.Value, where string, visit func(v reflect.Value, where string)) {
	switch v.Kind() {
	case reflect.String:
		visit(v, where)
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		eachText(v.Elem(), where, visit)
	case reflect.Struct:
		for i := range v.NumField() {
			eachText(v.Field(i), where+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.String {
			return // bytes, hashes, versions
		}
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			eachText(v.Index(i), where, visit)
		}
	}
}

// badTexts puts invalid text into each string of a batch, one at a time.
func badTexts(h *home) {
	b := store.Batch{Remove: []string{"r"}, Unpin: []string{"u"}, Objects: []store.Object{blob("beside")}}
	b.Under = []store.Fence{{}}
	b.Threads = []store.ThreadChange{{Row: store.Thread{ID: "T", Status: store.Running}}}
	b.Attempts = []store.AttemptChange{{Row: store.Attempt{ID: "T.1", Status: store.AttemptRunning}}}
	b.Gates = []store.GateChange{{Row: store.Gate{ID: "G", State: store.GateOpen}}}
	b.Flows = []store.FlowChange{{Row: store.Flow{Name: "F", Hash: blob("beside").Hash}}}
	b.Requests = []store.RequestChange{{Row: store.Request{ID: "W"}}}
	b.Counts = []store.Count{{Task: "T", Name: "n", Add: 1, Most: 1}}
	b.Events = []store.Event{{Type: "x", Task: "T"}}
	b.Redact.Requests = []store.Request{{ID: "W"}}
	tried := 0
	try := func(part string, v any) {
		eachText(reflect.ValueOf(v).Elem(), part, func(s reflect.Value, where string) {
			was := s.String()
			for _, bad := range []string{"a\x00", "\xff", "\xed\xa0\x80", "caf\xc3"} {
				s.SetString(bad)
				if err := h.Commit(h.ctx, b); !errors.Is(err, store.ErrInvalid) {
					h.Errorf("%s is %q: got %v, want invalid", where, bad, err)
				}
				tried++
			}
			s.SetString(was)
		})
	}
	for part, v := range map[string]any{
		"remove": &b.Remove, "unpin": &b.Unpin, "fence": &b.Under[0], "thread": &b.Threads[0].Row,
		"attempt": &b.Attempts[0].Row,
		"gate":    &b.Gates[0].Row, "flow": &b.Flows[0].Row, "wish": &b.Requests[0].Row, "count": &b.Counts[0],
		"event":    &b.Events[0],
		"redacted": &b.Redact.Requests[0],
	} {
		try(part, v)
	}
	if tried < 4*60 {
		h.Errorf("only %d texts were tried", tried)
	}
	h.same(h.has(blob("beside").Hash), false)
	rows, err := h.Threads(h.ctx, store.ThreadFilter{})
	h.must(err)
	h.same(len(rows), 0)
	h.gapless(0)
	for _, pin := range []string{"a\x00", "\xff"} {
		_, _, err := h.Stage(h.ctx, pin, strings.NewReader("x"))
		h.want(err, store.ErrInvalid)
	}
}

func rawBytes(h *home) {
	raw := json.RawMessage("\"\x00\xff\\u0000\"")
	b, t := insert(id(1))
	t.Decision, t.Options = raw, raw
	b.Threads[0].Row = t
	b.Objects = append(b.Objects, blob("\x00\xff"))
	b.Gates = []store.GateChange{{Row: store.Gate{ID: "G", State: store.GateOpen, Action: raw,
		Question: "\u0001 \ufffd \U0010ffff \n"}}}
	b.Requests = []store.RequestChange{{Row: store.Request{ID: "W", Options: raw}}}
	b.Events = []store.Event{{Type: "x", Task: t.ID, Payload: raw}}
	h.commit(b)
	h.reopen()
	gotT, err := h.Thread(h.ctx, t.ID)
	h.must(err)
	h.same(gotT, t)
	gotG, err := h.Gate(h.ctx, "G")
	h.must(err)
	h.same(gotG, b.Gates[0].Row)
	h.requests(store.RequestFilter{}, b.Requests[0].Row)
	events, err := h.Events(h.ctx, 0, store.EventFilter{})
	h.must(err)
	h.same(string(events[0].Payload), string(raw))
	o, err := h.Get(h.ctx, dag.Sum([]byte("\x00\xff")))
	h.must(err)
	h.same(string(o.Data), "\x00\xff")
}

func badNames(h *home) {
	family(h)
	for _, bad := range []string{"K\x00", "\xff", "K\xff"} {
		_, err := h.Thread(h.ctx, bad)
		h.want(err, store.ErrNotFound)
		_, err = h.Attempt(h.ctx, bad)
		h.want(err, store.ErrNotFound)
		_, err = h.Gate(h.ctx, bad)
		h.want(err, store.ErrNotFound)
		_, err = h.Flow(h.ctx, bad)
		h.want(err, store.ErrNotFound)
		threads, err := h.Threads(h.ctx, store.ThreadFilter{Prefix: bad})
		h.must(err)
		gates, err := h.Gates(h.ctx, store.GateFilter{Task: bad})
		h.must(err)
		events, err := h.Events(h.ctx, 0, store.EventFilter{Task: bad})
		h.must(err)
		rows, err := h.Task(h.ctx, bad)
		h.must(err)
		h.same([]int{len(threads), len(gates), len(events), len(rows.Threads)}, []int{0, 0, 0, 0})
		found, err := h.Resolve(h.ctx, bad, 5)
		h.must(err)
		h.same(len(found), 0)
	}
}
