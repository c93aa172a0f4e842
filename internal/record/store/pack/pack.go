// Package pack implements the form in which stores keep the bytes of an object in a row.
//
// It makes the bytes of an object shorter, or leaves them as they are, and restores
// them. Blobs are left alone. It never checks a hash: readers do.
package pack

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// Most of a state node is hashes in hex, each once in the payload and once in the
// refs. In a row a node's bytes are packed: after a first byte packedNode, a quoted
// hash is written as rawHash and its 32 bytes or, if it occurred before, as sameHash
// and a byte that is its index, counted from the first hash. None of these bytes
// occurs in canonical JSON, which escapes control characters, so packing loses
// nothing; readers still hash the original bytes.
const (
	packedNode = 0x01
	rawHash    = 0x02
	sameHash   = 0x03
	quotedHash = 2*dag.Size + 2 // bytes of a hash in quotes
	maxSame    = 256            // hashes that one byte can name
)

// Pack returns the form in which a row keeps an object's bytes.
func Pack(o store.Object) []byte {
	if o.Kind != store.Node || len(o.Data) == 0 || o.Data[0] != '{' {
		return o.Data
	}
	out := make([]byte, 1, len(o.Data)+1)
	out[0] = packedNode
	rest := o.Data
	var seen []dag.Hash
	for {
		i := bytes.IndexByte(rest, '"')
		if i < 0 {
			break
		}
		out, rest = append(out, rest[:i]...), rest[i:]
		if h, ok := quoted(rest); ok {
			if h.IsZero() { // unpacking would make it null
				out, rest = append(out, rest[:quotedHash]...), rest[quotedHash:]
				continue
			}
			rest = rest[quotedHash:]
			if i := slices.Index(seen, h); i >= 0 {
				out = append(out, sameHash, byte(i))
				continue
			}
			if len(seen) < maxSame {
				seen = append(seen, h)
			}
			out = append(append(out, rawHash), h[:]...)
			continue
		}
		out, rest = append(out, '"'), rest[1:]
	}
	if out = append(out, rest...); len(out) >= len(o.Data) {
		return o.Data
	}
	return out
}

// quoted returns the quoted hash that data begins with, if there is one.
func quoted(data []byte) (h dag.Hash, ok bool) {
	if len(data) < quotedHash || data[quotedHash-1] != '"' {
		return h, false
	}
	for i := range h {
		high, low := digits[data[1+2*i]], digits[data[2+2*i]]
		if high|low > 0xf {
			return h, false
		}
		h[i] = high<<4 | low
	}
	return h, true
}

// digits holds the value of each hex digit as hashes spell it, and for other bytes more than 0xf.
var digits = func() (of [256]byte) {
	for c := range of {
		of[c] = 0x10
	}
	for i, c := range []byte("0123456789abcdef") {
		of[c] = byte(i)
	}
	return of
}()

var errPacked = errors.New("a packed node is cut off")

// Packed reports whether an object of the given kind, stored as data or as bytes that begin
// with data, is packed, so that its stored length is not its size.
func Packed(data []byte, kind store.Kind) bool {
	return kind == store.Node && len(data) > 0 && data[0] == packedNode
}

// Unpack returns the bytes that Pack was given; size is their number. ErrCorrupt.
func Unpack(data []byte, kind store.Kind, size int64) ([]byte, error) {
	if !Packed(data, kind) {
		return data, nil
	}
	if size < 0 || size > dag.MaxBytes {
		return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, errPacked)
	}
	out := make([]byte, 0, size)
	var seen []dag.Hash
	for rest := data[1:]; ; {
		i := 0
		for i < len(rest) && rest[i] != rawHash && rest[i] != sameHash {
			i++
		}
		if i == len(rest) {
			return append(out, rest...), nil
		}
		out = append(out, rest[:i]...)
		mark, after := rest[i], rest[i+1:]
		switch {
		case mark == rawHash && len(after) >= dag.Size && !dag.Hash(after[:dag.Size]).IsZero():
			h := dag.Hash(after[:dag.Size])
			if len(seen) < maxSame {
				seen = append(seen, h)
			}
			out, rest = h.Append(out), after[dag.Size:]
		case mark == sameHash && len(after) >= 1 && int(after[0]) < len(seen):
			out, rest = seen[after[0]].Append(out), after[1:]
		default:
			return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, errPacked)
		}
	}
}
