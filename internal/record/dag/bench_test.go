package dag

import (
	"strings"
	"testing"
)

// BenchmarkDecode measures the strict decoding of a 2 KB node, the unit of
// verification. make bench measures encoding.
func BenchmarkDecode(b *testing.B) {
	data, err := Encode(TypeState, map[string]any{"start": Sum(nil), "content": Sum([]byte("c")),
		"meta": map[string]any{"$status": "done", "note": strings.Repeat("x", 1500)}})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
