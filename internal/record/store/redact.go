package store

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"github.com/plait-run/plait/internal/record/dag"
)

// A Redaction replaces what must not stay in the record. Of an object its hash stays, and bytes made by [Redacted]
// take the place of its own; of a request and an event everything stays but the texts: a request is found by its ID,
// an event by its Pos. One that is not kept any more is skipped. Bytes alone do not say that anyone redacted them: an
// event of the batch does, see [Proof].
//
// Rows of threads, attempts and gates are replaced by their changes in the same batch.
type Redaction struct {
	Objects  []Object
	Requests []Request
	Events   []Event
}

// Empty reports whether nothing is replaced.
func (r Redaction) Empty() bool {
	return len(r.Objects) == 0 && len(r.Requests) == 0 && len(r.Events) == 0
}

// redacted begins the bytes that are kept instead of an object's. The SHA-256 of what follows the line comes after it.
const redacted = "plait: redacted "

// headLen is the length of that line.
const headLen = len(redacted) + 2*dag.Size + 1

// Redacted returns what is kept of an object instead of its bytes: a line that says so, and data.
func Redacted(data []byte) []byte {
	return append(fmt.Appendf(make([]byte, 0, headLen+len(data)), "%s%s\n", redacted, dag.Sum(data)), data...)
}

// Unredacted returns what follows the line that [Redacted] put before it, and reports whether there is one.
func Unredacted(kept []byte) ([]byte, bool) {
	if len(kept) < headLen || !MayBeRedacted(kept) {
		return kept, false
	}
	data := kept[headLen:]
	return data, fmt.Sprintf("%s%s\n", redacted, dag.Sum(data)) == string(kept[:headLen])
}

// MayBeRedacted reports whether bytes begin as those that [Redacted] makes.
func MayBeRedacted(head []byte) bool { return bytes.HasPrefix(head, []byte(redacted)) }

// Checked returns the object for the bytes that are kept under h, or ErrCorrupt. A redacted node is returned without
// its first line, so that it can be decoded.
func Checked(h dag.Hash, kind Kind, kept []byte) (Object, error) {
	o := Object{Hash: h, Kind: kind, Data: kept}
	if dag.Sum(kept) == h {
		return o, nil
	}
	data, ok := Unredacted(kept)
	if !ok {
		return Object{}, fmt.Errorf("object %s: %w", h, ErrCorrupt)
	}
	o.Redacted = true
	if kind == Node {
		o.Data = data
	}
	return o, nil
}

// Discard reads r, which has what is kept under h and checks it, to its end. It returns the number of bytes, and their
// SHA-256 if it is not h: they were made by [Redacted].
func Discard(r io.Reader, h dag.Hash) (n int64, kept dag.Hash, err error) {
	in := bufio.NewReader(r)
	if head, _ := in.Peek(len(redacted)); !MayBeRedacted(head) {
		n, err = io.Copy(io.Discard, in)
		return n, kept, err
	}
	sum := sha256.New()
	n, err = io.Copy(sum, in)
	if is := dag.Hash(sum.Sum(nil)); is != h {
		kept = is
	}
	return n, kept, err
}

// A Sum checks bytes that are kept under a hash as they are read.
type Sum struct {
	all  hash.Hash
	head []byte
	rest hash.Hash // of what follows head
}

// NewSum returns a Sum of no bytes.
func NewSum() *Sum { return &Sum{all: sha256.New(), rest: sha256.New()} }

// Write adds bytes.
func (s *Sum) Write(p []byte) (int, error) {
	s.all.Write(p)
	n := min(len(p), headLen-len(s.head))
	s.head = append(s.head, p[:n]...)
	if MayBeRedacted(s.head) {
		s.rest.Write(p[n:])
	}
	return len(p), nil
}

// Is reports whether the bytes may be kept under h: they are its own, or were made by [Redacted].
func (s *Sum) Is(h dag.Hash) bool {
	return dag.Hash(s.all.Sum(nil)) == h || fmt.Sprintf("%s%s\n", redacted, dag.Hash(s.rest.Sum(nil))) == string(s.head)
}
