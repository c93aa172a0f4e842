package storetest

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

var redactTests = []test{
	{"what is redacted is gone, and its hash stays", redactObjects},
	{"a wish and an event keep all but their texts", redactRows},
	{"a refused batch redacts nothing", redactRefused},
	{"what is not kept is not redacted", redactMissing},
	{"redacted bytes that changed are corrupt", redactForged},
}

const unwanted = "the unwanted text"

// large is a blob that stores keep elsewhere than in a row.
var large = strings.Repeat("0123456789abcdef", 40_000) + unwanted

// redaction replaces bytes that are kept under h.
func redaction(h dag.Hash, data string) store.Redaction {
	return store.Redaction{Objects: []store.Object{{Hash: h, Data: store.Redacted([]byte(data))}}}
}

func redactObjects(h *home) {
	n := node(`{"payload":"` + unwanted + `","refs":[],"type":"content"}`)
	const cleanNode = `{"payload":"***","refs":[],"type":"content"}`
	const cleanLarge = "0123456789abcdef ***"
	b, _ := insert("T")
	b.Objects = append(b.Objects, blob(unwanted), n)
	h.commit(b)
	big, _, err := h.Stage(h.ctx, "T", strings.NewReader(large))
	h.must(err)
	small := dag.Sum([]byte(unwanted))
	var r store.Redaction
	for at, data := range map[dag.Hash]string{small: "***", n.Hash: cleanNode, big: cleanLarge} {
		r.Objects = append(r.Objects, redaction(at, data).Objects...)
	}
	h.commit(store.Batch{Redact: r})
	check := func() {
		h.Helper()
		for at, want := range map[dag.Hash]string{small: "***", n.Hash: cleanNode, big: cleanLarge} {
			kept := store.Redacted([]byte(want))
			o, err := h.Get(h.ctx, at)
			h.must(err)
			if o.Kind == store.Blob {
				h.same(string(o.Data), string(kept))
			} else {
				h.same(string(o.Data), want)
			}
			all, err := h.Many(h.ctx, []dag.Hash{at, at})
			h.must(err)
			h.same(all, []store.Object{o, o})
			in, e, err := h.Open(h.ctx, at)
			h.must(err)
			data, err := io.ReadAll(in)
			h.must(err)
			h.must(in.Close())
			h.same(string(data), string(kept))
			h.same(e.Size, int64(len(kept)))
			h.same(h.entry(at).Size, e.Size)
		}
		h.must(h.Scan(h.ctx, func(o store.Object) error {
			if bytes.Contains(o.Data, []byte(unwanted)) {
				h.Errorf("%s has it", o.Hash)
			}
			return nil
		}))
	}
	check()
	// Putting it again does not bring it back.
	h.commit(store.Batch{Objects: []store.Object{blob(unwanted), n}})
	_, _, err = h.Stage(h.ctx, "T", strings.NewReader(large))
	h.must(err)
	check()
	h.must(h.Compact(h.ctx, 0))
	check()
	lines, err := h.Check(h.ctx)
	h.must(err)
	h.same(lines, []string(nil))
	h.reopen()
	check()
}

func redactRows(h *home) {
	b, t := insert("T")
	w := store.Request{ID: "W", Task: "T", Thread: "T", Kind: store.RequestInput, Text: unwanted,
		Options: json.RawMessage(`{"x":"` + unwanted + `"}`), By: "ann", Via: store.ViaCLI, At: 5}
	taken := w
	taken.ID = "V"
	b.Requests = []store.RequestChange{{Row: w}, {Row: taken}}
	b.Events = []store.Event{{Type: "a", Task: "T", Thread: "T", TS: 7,
		Payload: json.RawMessage(`{"text":"` + unwanted + `"}`)}, {Type: "b", Task: "T"}}
	h.commit(b)
	taken.TakenAt = 9
	h.commit(store.Batch{Requests: []store.RequestChange{{Row: taken, Take: true}}})
	events, err := h.Events(h.ctx, 0, store.EventFilter{})
	h.must(err)
	w.Text, w.Options = "***", json.RawMessage(`{"x":"***"}`)
	taken.Text, taken.Options = w.Text, w.Options
	events[0].Payload = json.RawMessage(`{"text":"***"}`)
	h.commit(store.Batch{
		Redact: store.Redaction{Requests: []store.Request{w, taken}, Events: events[:1]},
		Events: []store.Event{{Type: "record.redacted", Task: "T"}},
	})
	h.reopen()
	requests, err := h.Requests(h.ctx, store.RequestFilter{Task: t.ID})
	h.must(err)
	h.same(requests, []store.Request{taken, w})
	got, err := h.Events(h.ctx, 0, store.EventFilter{})
	h.must(err)
	h.same(got[:2], events)
	h.same(got[2].Type, "record.redacted")
}

func redactRefused(h *home) {
	b, t := insert("T")
	b.Events = []store.Event{{Type: "a", Task: "T", Payload: json.RawMessage(`1`)}}
	b.Objects = append(b.Objects, blob(unwanted))
	h.commit(b)
	r := redaction(dag.Sum([]byte(unwanted)), "***")
	r.Events = []store.Event{{Pos: 1, Payload: json.RawMessage(`2`)}}
	h.want(h.Commit(h.ctx, store.Batch{Redact: r, Threads: []store.ThreadChange{{Row: t}}}), store.ErrConflict)
	o, err := h.Get(h.ctx, dag.Sum([]byte(unwanted)))
	h.must(err)
	h.same(string(o.Data), unwanted)
	events, err := h.Events(h.ctx, 0, store.EventFilter{})
	h.must(err)
	h.same(string(events[0].Payload), `1`)
}

func redactMissing(h *home) {
	hs := h.keep(unwanted)
	r := redaction(dag.Sum([]byte("never kept")), "***")
	r.Objects = append(r.Objects, redaction(hs[0], "***").Objects...)
	r.Requests, r.Events = []store.Request{{ID: "none"}}, []store.Event{{Pos: 99, Payload: json.RawMessage(`2`)}}
	h.commit(store.Batch{Redact: r})
	if h.has(dag.Sum([]byte("never kept"))) {
		h.Error("it was put")
	}
	o, err := h.Get(h.ctx, hs[0])
	h.must(err)
	h.same(string(o.Data), string(store.Redacted([]byte("***"))))
}

func redactForged(h *home) {
	hs := h.keep(unwanted)
	data := store.Redacted([]byte("***"))
	data[len(data)-1]++
	h.commit(store.Batch{Redact: store.Redaction{Objects: []store.Object{{Hash: hs[0], Data: data}}}})
	_, err := h.Get(h.ctx, hs[0])
	h.want(err, store.ErrCorrupt)
	in, _, err := h.Open(h.ctx, hs[0])
	h.must(err)
	_, err = io.ReadAll(in)
	h.want(err, store.ErrCorrupt)
	h.must(in.Close())
}
