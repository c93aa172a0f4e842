// Package pack is the form in which stores keep the bytes of an object in a row.
//
// In go the bytes of an object, out comes something shorter or the same, and the
// other way round. Blobs are left alone. It never checks a hash: whoever reads does.
package pack

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
)

// Most of a state node is hashes in hex, each once in the payload and once in the
// refs. In a row a node's bytes are packed: behind a first byte packedNode,
// a hash in quotes stands as rawHash and its 32 bytes, or, when it stood before, as
// sameHash and a byte that counts from the first hash. None of these bytes occurs in
// canonical JSON, which escapes control characters, so packing loses nothing; reading
// still hashes the bytes themselves.
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
		if len(rest) >= quotedHash && rest[quotedHash-1] == '"' && lowerHex(rest[1:quotedHash-1]) {
			var h dag.Hash
			hex.Decode(h[:], rest[1:quotedHash-1]) // every digit was checked
			if h.IsZero() {                        // it would be written as null
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

func lowerHex(digits []byte) bool {
	for _, c := range digits {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

var errPacked = errors.New("a packed node is cut off")

// Packed reports whether an object of kind that is kept as data, or as something that begins
// with data, is packed, so that its row's length is not its size.
func Packed(data []byte, kind store.Kind) bool {
	return kind == store.Node && len(data) > 0 && data[0] == packedNode
}

// Unpack returns the bytes that Pack was given. size is how many they were. ErrCorrupt.
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
