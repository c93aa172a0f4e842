package postgres

import (
	"encoding/json"
	"fmt"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// kept is the stored form of a row: JSON, next to which raw values are kept byte for byte.
type kept[T any] struct {
	Row T        `json:"row"`
	Raw [][]byte `json:"raw,omitempty"`
}

func encode[T any](row T, raw ...json.RawMessage) ([]byte, error) {
	k := kept[T]{Row: row}
	for i, r := range raw {
		if r != nil && k.Raw == nil {
			k.Raw = make([][]byte, len(raw))
		}
		if r != nil {
			k.Raw[i] = r
		}
	}
	return json.Marshal(k)
}

// decode reads a row into v, and its raw values into raw.
func decode[T any](data []byte, v *T, raw ...*json.RawMessage) error {
	var k kept[T]
	if err := json.Unmarshal(data, &k); err != nil {
		return fmt.Errorf("a row cannot be read (%w): %w", err, store.ErrCorrupt)
	}
	*v = k.Row
	for i, r := range raw {
		*r = nil
		if i < len(k.Raw) {
			*r = k.Raw[i]
		}
	}
	return nil
}

func encodeThread(t store.Thread) ([]byte, error) {
	decision, options := t.Decision, t.Options
	t.Decision, t.Options = nil, nil
	return encode(t, decision, options)
}

func decodeThread(data []byte) (t store.Thread, err error) {
	var decision, options json.RawMessage
	err = decode(data, &t, &decision, &options)
	t.Decision, t.Options = decision, options
	return t, err
}

func encodeAttempt(a store.Attempt) ([]byte, error) { return encode(a) }

func decodeAttempt(data []byte) (a store.Attempt, err error) {
	err = decode(data, &a)
	return a, err
}

func encodeGate(g store.Gate) ([]byte, error) {
	action, edited := g.Action, g.Edited
	g.Action, g.Edited = nil, nil
	return encode(g, action, edited)
}

func decodeGate(data []byte) (g store.Gate, err error) {
	var action, edited json.RawMessage
	err = decode(data, &g, &action, &edited)
	g.Action, g.Edited = action, edited
	return g, err
}

func encodeFlow(f store.Flow) ([]byte, error) { return encode(f) }

func decodeFlow(data []byte) (f store.Flow, err error) {
	err = decode(data, &f)
	return f, err
}

func encodeRequest(w store.Request) ([]byte, error) {
	options := w.Options
	w.Options = nil
	return encode(w, options)
}

// decodeRequest reads a request. Taking one changes only the column that says when.
func decodeRequest(data []byte, taken int64) (w store.Request, err error) {
	var options json.RawMessage
	err = decode(data, &w, &options)
	w.Options, w.TakenAt = options, taken
	return w, err
}

// bytesOf returns h as a column stores it: the zero hash is no bytes.
func bytesOf(h dag.Hash) []byte {
	if h.IsZero() {
		return []byte{}
	}
	return h[:]
}

// keysOf returns hashes as an array parameter.
func keysOf(hs []dag.Hash) [][]byte {
	keys := make([][]byte, len(hs))
	for i := range hs {
		keys[i] = hs[i][:]
	}
	return keys
}

// joined returns the hashes that a row names as its column stores them: concatenated, with a
// zero hash before those that it only may name.
func joined(roots []store.Root) []byte {
	b := make([]byte, 0, (len(roots)+1)*dag.Size)
	for _, r := range roots {
		if !r.Maybe {
			b = append(b, r.Hash[:]...)
		}
	}
	may := false
	for _, r := range roots {
		if !r.Maybe {
			continue
		}
		if !may {
			b = append(b, make([]byte, dag.Size)...)
			may = true
		}
		b = append(b, r.Hash[:]...)
	}
	return b
}

// named is the inverse of joined, for a row of a table.
func named(row, id string, names []byte) ([]store.Root, error) {
	roots := make([]store.Root, 0, len(names)/dag.Size)
	may := false
	for ; len(names) >= dag.Size; names = names[dag.Size:] {
		h := dag.Hash(names[:dag.Size])
		if h.IsZero() {
			may = true
			continue
		}
		roots = append(roots, store.Root{Hash: h, Row: row, ID: id, Maybe: may})
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("what %s %s names: %w", row, id, store.ErrCorrupt)
	}
	return roots, nil
}
