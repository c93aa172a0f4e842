package dag

import (
	"bytes"
	"fmt"
	"slices"
)

// A Walker visits every object reachable from some roots, each once. The zero
// Walker is ready. It keeps what it has seen, so it can be given further roots
// later and continues from there: the second half of a garbage collection.
type Walker struct {
	seen  map[Hash]struct{}
	stack []Hash
}

// Seen reports whether h was visited.
func (w *Walker) Seen(h Hash) bool {
	_, ok := w.seen[h]
	return ok
}

// Len returns the number of objects visited.
func (w *Walker) Len() int { return len(w.seen) }

// Walk visits what is reachable from roots and was not visited before. visit
// returns the refs of h (none for a blob); its error ends the walk and is
// returned. The order is not specified.
func (w *Walker) Walk(roots []Hash, visit func(h Hash) ([]Hash, error)) error {
	if w.seen == nil {
		w.seen = make(map[Hash]struct{})
	}
	w.push(roots)
	for len(w.stack) > 0 {
		h := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		refs, err := visit(h)
		if err != nil {
			w.stack = w.stack[:0]
			delete(w.seen, h)
			return err
		}
		w.push(refs)
	}
	return nil
}

// push marks hs as seen when they are put on the stack, not when taken off, so
// that the stack never holds an object twice.
func (w *Walker) push(hs []Hash) {
	for i := len(hs) - 1; i >= 0; i-- {
		if h := hs[i]; !h.IsZero() && !w.Seen(h) {
			w.seen[h] = struct{}{}
			w.stack = append(w.stack, h)
		}
	}
}

// RefsOf returns the refs of an encoded node, reading only its tail: in canonical
// form refs and type come last. It is for walks over stores whose bytes were
// hashed on the way in; it does not check that the payload derives the refs.
func RefsOf(data []byte) ([]Hash, error) {
	bad := fmt.Errorf("%w: no refs at the end", ErrMalformed)
	i := bytes.LastIndex(data, []byte(`,"type":"`))
	if i < 1 || data[i-1] != ']' {
		return nil, bad
	}
	b := data[:i-1]
	const item = 2*Size + 2 // quotes included
	var refs []Hash
	for len(b) > item && b[len(b)-1] == '"' {
		h, err := ParseHash(string(b[len(b)-item+1 : len(b)-1]))
		if err != nil {
			return nil, bad
		}
		refs = append(refs, h)
		b = b[:len(b)-item]
		if b[len(b)-1] != ',' {
			break
		}
		b = b[:len(b)-1]
	}
	if !bytes.HasSuffix(b, []byte(`,"refs":[`)) {
		return nil, bad
	}
	slices.Reverse(refs)
	return refs, nil
}
