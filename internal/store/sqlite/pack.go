package sqlite

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
)

// Half of a state node is hashes in hex. In the database a node's bytes are
// packed: behind a first byte packedNode, each hash in quotes stands as rawHash
// and its 32 bytes. Neither byte occurs in canonical JSON, which escapes control
// characters, so packing loses nothing; reading still hashes the bytes themselves.
const (
	packedNode = 0x01
	rawHash    = 0x02
	quotedHash = 2*dag.Size + 2 // bytes of a hash in quotes
)

// pack returns the form in which the database keeps an object's bytes.
func pack(o store.Object) []byte {
	if o.Kind != store.Node || len(o.Data) == 0 || o.Data[0] != '{' {
		return o.Data
	}
	out := make([]byte, 1, len(o.Data)+1)
	out[0] = packedNode
	rest := o.Data
	var raw [dag.Size]byte
	for {
		i := bytes.IndexByte(rest, '"')
		if i < 0 {
			break
		}
		out, rest = append(out, rest[:i]...), rest[i:]
		if len(rest) >= quotedHash && rest[quotedHash-1] == '"' && lowerHex(rest[1:quotedHash-1]) {
			hex.Decode(raw[:], rest[1:quotedHash-1]) // every digit was checked
			out = append(append(out, rawHash), raw[:]...)
			rest = rest[quotedHash:]
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

// unpack returns the bytes that pack was given. size is how many they were.
func unpack(data []byte, kind store.Kind, size int64) ([]byte, error) {
	if kind != store.Node || len(data) == 0 || data[0] != packedNode {
		return data, nil
	}
	if size < 0 || size > dag.MaxBytes {
		return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, errPacked)
	}
	out := make([]byte, 0, size)
	for rest := data[1:]; ; {
		i := bytes.IndexByte(rest, rawHash)
		if i < 0 {
			return append(out, rest...), nil
		}
		if len(rest) < i+1+dag.Size {
			return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, errPacked)
		}
		out = append(append(out, rest[:i]...), '"')
		out = hex.AppendEncode(out, rest[i+1:i+1+dag.Size])
		out = append(out, '"')
		rest = rest[i+1+dag.Size:]
	}
}
