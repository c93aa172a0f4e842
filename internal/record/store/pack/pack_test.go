package pack

import (
	"bytes"
	"errors"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

func TestPackHalvesHashes(t *testing.T) {
	data, err := dag.Encode(dag.TypeState, map[string]any{"start": dag.Sum([]byte("a")), "content": dag.Sum([]byte("b")),
		"ancestors": []dag.Hash{dag.Sum([]byte("c"))}})
	if err != nil {
		t.Fatal(err)
	}
	if packed := Pack(store.Object{Kind: store.Node, Data: data}); len(packed) > len(data)*2/3 {
		t.Errorf("%d bytes packed into %d", len(data), len(packed))
	}
	blob := store.Object{Kind: store.Blob, Data: append([]byte{packedNode}, data...)}
	if !bytes.Equal(Pack(blob), blob.Data) {
		t.Error("a blob was changed")
	}
}

// FuzzPack checks that every node survives packing, and that damaged bytes
// yield other bytes or an error, never a panic.
func FuzzPack(f *testing.F) {
	h := dag.Sum(nil).String()
	for _, s := range []string{`{"a":"` + h + `","b":["` + h + `","` + h[1:] + `"]}`, `{"a":"\"` + h + `\""}`, `{"` + h,
		`{`, `{"z":"0000000000000000000000000000000000000000000000000000000000000000"}`, `{"a":"\u0001\u0002"}`,
		`"` + h + `"`} {
		f.Add([]byte(s), 0, byte(0))
	}
	f.Fuzz(func(t *testing.T, data []byte, at int, flip byte) {
		if bytes.ContainsAny(data, "\x01\x02\x03") {
			return // not canonical JSON
		}
		packed := Pack(store.Object{Kind: store.Node, Data: data})
		back, err := Unpack(packed, store.Node, int64(len(data)))
		if err != nil || !bytes.Equal(back, data) {
			t.Fatalf("%q came back as %q: %v", data, back, err)
		}
		if len(packed) == 0 {
			return
		}
		bad := bytes.Clone(packed)
		bad[uint(at)%uint(len(bad))] ^= flip
		if _, err := Unpack(bad, store.Node, int64(len(data))); err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("damaged bytes: %v", err)
		}
	})
}
