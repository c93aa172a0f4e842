package storetest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/iotest"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

var objectTests = []test{
	{"blobs of any size come back", blobSizes},
	{"a large node comes back", largeNode},
	{"what is not there is not found", notFound},
	{"an object put as both is a node", kindUpgrade},
	{"an object put again counts as new", freshened},
	{"a prefix resolves in order", resolve},
	{"a reader's error fails staging", stageFails},
	{"many stage the same bytes at once", stageTogether},
	{"what is handed in or out is a copy", copies},
	{"a scan visits what is sound, and nothing twice", scanned},
	{"many come in the order that they are asked in", manyOrder},
	{"of many one that is missing is not found", manyMissing},
}

func blobSizes(h *home) {
	rng := rand.NewChaCha8([32]byte{1})
	for _, size := range []int{0, 1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 1 << 20, 64 << 20} {
		data := make([]byte, size)
		rng.Read(data)
		hash, n, err := h.Stage(h.ctx, "p", iotest.HalfReader(bytes.NewReader(data)))
		h.must(err)
		if hash != dag.Sum(data) || n != int64(size) {
			h.Fatalf("%d bytes staged as %d bytes, %s", size, n, hash)
		}
		o, err := h.Get(h.ctx, hash)
		h.must(err)
		if !bytes.Equal(o.Data, data) || o.Kind != store.Blob || o.Hash != hash {
			h.Fatalf("%d bytes: Get returned %d bytes of a %s", size, len(o.Data), o.Kind)
		}
		r, e, err := h.Open(h.ctx, hash)
		h.must(err)
		sum := sha256.New()
		read, err := io.Copy(sum, r)
		h.must(err)
		h.must(r.Close())
		if read != int64(size) || dag.Hash(sum.Sum(nil)) != hash || e.Size != int64(size) || e.Hash != hash ||
			e.Kind != store.Blob {
			h.Fatalf("%d bytes: Open returned %d, with entry %+v", size, read, e)
		}
		h.same(h.entry(hash), e)
	}
	h.reopen()
	if n := 0; true {
		for _, err := range h.List(h.ctx) {
			h.must(err)
			n++
		}
		h.same(n, 7)
	}
}

func largeNode(h *home) {
	o := node(strings.Repeat("n", 8<<20))
	h.commit(store.Batch{Objects: []store.Object{o}})
	got, err := h.Get(h.ctx, o.Hash)
	h.must(err)
	if got.Kind != store.Node || !bytes.Equal(got.Data, o.Data) {
		h.Fatalf("got %d bytes of a %s", len(got.Data), got.Kind)
	}
}

func notFound(h *home) {
	x := dag.Sum([]byte("x"))
	_, err := h.Get(h.ctx, x)
	h.want(err, store.ErrNotFound)
	_, _, err = h.Open(h.ctx, x)
	h.want(err, store.ErrNotFound)
	h.same(h.has(x), false)
	_, err = h.Get(h.ctx, dag.Hash{})
	h.want(err, store.ErrNotFound)
	_, err = h.Thread(h.ctx, "x")
	h.want(err, store.ErrNotFound)
	_, err = h.Attempt(h.ctx, "x")
	h.want(err, store.ErrNotFound)
	_, err = h.Gate(h.ctx, "x")
	h.want(err, store.ErrNotFound)
	_, err = h.Flow(h.ctx, "x")
	h.want(err, store.ErrNotFound)
}

func kindUpgrade(h *home) {
	big := strings.Repeat("b", 300<<10)
	for _, text := range []string{"small", big} {
		hash, _, err := h.Stage(h.ctx, "p", strings.NewReader(text))
		h.must(err)
		for _, x := range []struct {
			put  store.Object
			want store.Kind
		}{{blob(text), store.Blob}, {node(text), store.Node}, {blob(text), store.Node}} {
			h.commit(store.Batch{Objects: []store.Object{x.put}})
			o, err := h.Get(h.ctx, hash)
			h.must(err)
			h.same(o.Kind, x.want)
		}
		_, _, err = h.Stage(h.ctx, "p", strings.NewReader(text))
		h.must(err)
		e := h.entry(hash)
		h.same([]any{e.Kind, e.Size}, []any{store.Node, int64(len(text))})
	}
}

// freshened looks only at the store's own clock.
func freshened(h *home) {
	big := strings.Repeat("b", 300<<10)
	puts := map[string]func(string) error{
		"commit": func(text string) error {
			return h.Commit(h.ctx, store.Batch{Objects: []store.Object{blob(text)}})
		},
		"stage": func(text string) error {
			_, _, err := h.Stage(h.ctx, "p", strings.NewReader(text))
			return err
		},
	}
	for name, put := range puts {
		for _, text := range []string{"small " + name, big + name} {
			h.must(put(text))
			hash := dag.Sum([]byte(text))
			old := h.entry(hash).Put
			h.until("a later put time by "+name, func() bool {
				h.must(put(text))
				return h.entry(hash).Put.After(old)
			})
		}
	}
}

func resolve(h *home) {
	var all []dag.Hash
	for i := range 300 {
		all = append(all, h.keep(fmt.Sprint(i))...)
	}
	slices.SortFunc(all, func(a, b dag.Hash) int { return bytes.Compare(a[:], b[:]) })
	want := func(prefix string, max int) (hs []dag.Hash) {
		for _, x := range all {
			if strings.HasPrefix(x.String(), prefix) && len(hs) < max {
				hs = append(hs, x)
			}
		}
		return hs
	}
	first := all[0].String()
	for _, prefix := range []string{"", "0", "f", "ff", "a7", first[:1], first[:6], first[:7], first, first + "0", "x",
		"AB", "../"} {
		for _, max := range []int{0, 1, 2, 1000} {
			got, err := h.Resolve(h.ctx, prefix, max)
			h.must(err)
			if !slices.Equal(got, want(prefix, max)) {
				h.Errorf("%q, at most %d: got %d hashes, want %d", prefix, max, len(got), len(want(prefix, max)))
			}
		}
	}
	var listed []dag.Hash
	for e, err := range h.List(h.ctx) {
		h.must(err)
		listed = append(listed, e.Hash)
	}
	h.same(listed, all)
}

func stageFails(h *home) {
	broken := errors.New("cable pulled")
	for _, n := range []int{0, 10, 300 << 10} {
		_, _, err := h.Stage(h.ctx, "p", io.MultiReader(strings.NewReader(strings.Repeat("x", n)), iotest.ErrReader(broken)))
		h.want(err, broken)
	}
	ctx, cancel := context.WithCancel(h.ctx)
	cancel()
	_, _, err := h.Stage(ctx, "p", strings.NewReader("x"))
	h.want(err, context.Canceled)
	if _, _, err := h.Stage(h.ctx, "", strings.NewReader("x")); err == nil {
		h.Error("a pin without a name was taken")
	}
	for e, err := range h.List(h.ctx) {
		h.must(err)
		h.Errorf("%s was kept", e.Hash)
	}
	pins, err := h.Pins(h.ctx)
	h.must(err)
	h.same(len(pins), 0)
}

func stageTogether(h *home) {
	text := strings.Repeat("same", 100<<10)
	handles := []store.Store{h.Store, h.again()}
	errs := make(chan error)
	const n = 8
	for i := range n {
		go func() {
			_, _, err := handles[i%2].Stage(h.ctx, fmt.Sprint("p", i), strings.NewReader(text))
			errs <- err
		}()
	}
	for range n {
		h.must(<-errs)
	}
	o, err := h.Get(h.ctx, dag.Sum([]byte(text)))
	h.must(err)
	h.same(len(o.Data), len(text))
}

func copies(h *home) {
	o := blob("bytes")
	t := thread(id(1), o.Hash)
	t.Decision = []byte(`{"a":1}`)
	t.Reason = &store.Reason{Kind: store.ReasonGate}
	h.commit(store.Batch{Objects: []store.Object{o}, Threads: []store.ThreadChange{{Row: t}}})
	o.Data[0], t.Decision[0], t.Reason.Kind = 'X', 'X', "X"
	for range 2 {
		got, err := h.Get(h.ctx, o.Hash)
		h.must(err)
		h.same(string(got.Data), "bytes")
		got.Data[0] = 'Y'
		row, err := h.Thread(h.ctx, t.ID)
		h.must(err)
		h.same(string(row.Decision)+string(row.Reason.Kind), `{"a":1}gate`)
		row.Decision[0], row.Reason.Kind = 'Y', "Y"
	}
}

// scanned checks what a scan visits. It may omit large objects.
func scanned(h *home) {
	var b store.Batch
	var nodes []dag.Hash
	for i := range 3000 {
		o := node(fmt.Sprint("node ", i))
		b.Objects, nodes = append(b.Objects, o), append(nodes, o.Hash)
	}
	h.commit(b)
	small := h.keep("", "a", "b")
	large, _, err := h.Stage(h.ctx, "p", strings.NewReader(strings.Repeat("c", 300<<10)))
	h.must(err)
	h.sweep(0, nodes[7], nodes[2999], small[1])
	var mu sync.Mutex
	seen := map[dag.Hash]store.Object{}
	h.must(h.Scan(h.ctx, func(o store.Object) error {
		mu.Lock()
		defer mu.Unlock()
		if _, twice := seen[o.Hash]; twice {
			h.Errorf("%s is visited twice", o.Hash)
		}
		seen[o.Hash] = o
		return nil
	}))
	for e, err := range h.List(h.ctx) {
		h.must(err)
		got, ok := seen[e.Hash]
		delete(seen, e.Hash)
		want, err := h.Get(h.ctx, e.Hash)
		h.must(err)
		if ok && (got.Kind != want.Kind || !bytes.Equal(got.Data, want.Data)) {
			h.Errorf("%s: visited as %s %q, it is %s %q", e.Hash, got.Kind, got.Data, want.Kind, want.Data)
		}
		if !ok && e.Hash != large {
			h.Errorf("%s is not visited", e.Hash)
		}
	}
	if len(seen) > 0 {
		h.Errorf("%d objects are visited that are not there", len(seen))
	}
	stop := errors.New("stop")
	h.want(h.Scan(h.ctx, func(store.Object) error { return stop }), stop)
	cut, cancel := context.WithCancel(h.ctx)
	cancel()
	h.want(h.Scan(cut, func(store.Object) error { return nil }), context.Canceled)
	// Missing objects are left out.
	es, err := h.Stat(h.ctx, []dag.Hash{nodes[7], large, nodes[8]})
	h.must(err)
	slices.SortFunc(es, func(a, b store.Entry) int { return cmp.Compare(a.Size, b.Size) })
	if len(es) != 2 || es[0].Hash != nodes[8] || es[0].Kind != store.Node || es[1].Hash != large ||
		es[1].Size != 300<<10 ||
		es[1].Kind != store.Blob {
		h.Errorf("stat: %+v", es)
	}
	es, err = h.Stat(h.ctx, nil)
	h.must(err)
	h.same(len(es), 0)
}

func manyOrder(h *home) {
	got, err := h.Many(h.ctx, nil)
	h.must(err)
	h.same(len(got), 0)
	var b store.Batch
	for i := range 3000 { // more than a query can name
		o := blob(fmt.Sprint("object ", i))
		if i%3 == 0 {
			o = node(fmt.Sprint("object ", i))
		}
		b.Objects = append(b.Objects, o)
	}
	big := strings.Repeat("large", 100<<10)
	_, _, err = h.Stage(h.ctx, "p", strings.NewReader(big))
	h.must(err)
	empty := blob("")
	b.Objects = append(b.Objects, empty)
	h.commit(b)
	want := append(slices.Clone(b.Objects), blob(big), empty)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(want), func(i, j int) { want[i], want[j] = want[j], want[i] })
	want = append(want, want[:10]...) // duplicates too
	for _, n := range []int{1, 2, 11, len(want)} {
		var hs []dag.Hash
		for _, o := range want[:n] {
			hs = append(hs, o.Hash)
		}
		got, err := h.Many(h.ctx, hs)
		h.must(err)
		if len(got) != n {
			h.Fatalf("%d of %d", len(got), n)
		}
		for i, o := range got {
			if o.Hash != want[i].Hash || o.Kind != want[i].Kind || !bytes.Equal(o.Data, want[i].Data) {
				h.Fatalf("%d of %d: got %d bytes of a %s", i, n, len(o.Data), o.Kind)
			}
		}
	}
	x := b.Objects[0].Hash
	twice, err := h.Many(h.ctx, []dag.Hash{x, x})
	h.must(err)
	twice[0].Data[0]++ // they share nothing, neither with each other nor with the store
	again, err := h.Get(h.ctx, x)
	h.must(err)
	h.same([]string{string(twice[1].Data), string(again.Data)}, []string{"object 0", "object 0"})
}

func manyMissing(h *home) {
	hs := h.keep("a", "b")
	for _, at := range []int{0, 1, 2} {
		_, err := h.Many(h.ctx, slices.Insert(slices.Clone(hs), at, dag.Sum([]byte("not there"))))
		h.want(err, store.ErrNotFound)
	}
	_, err := h.Many(h.ctx, []dag.Hash{{}})
	h.want(err, store.ErrNotFound)
}
