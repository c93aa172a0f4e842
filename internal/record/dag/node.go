package dag

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
)

// The node types. A thread is a chain of states from a start; the rest hangs
// below those two.
const (
	TypeContent  = "content"
	TypeArtifact = "artifact"
	TypeStart    = "start"
	TypeState    = "state"
	TypeFlow     = "flow"
	TypeDetail   = "detail"
	TypeEvidence = "evidence"
	TypePrompt   = "prompt"
	TypeCalls    = "calls"
	TypeTree     = "tree"
	TypeSession  = "session"
)

// ErrMalformed is wrapped by every error of Decode.
var ErrMalformed = errors.New("malformed node")

var errNotCanonical = errors.New("not in canonical form")

// A Node is one immutable record.
type Node struct {
	Type    string
	Payload []byte // canonical JSON
	Refs    []Hash // derived; application code reads the payload instead
}

// Unmarshal decodes the payload into v, a pointer. Fields that the payload lacks stay as they are in v;
// those that v lacks are ignored.
func (n Node) Unmarshal(v any) error { return json.Unmarshal(n.Payload, v) }

// Encode returns the node's canonical bytes. It marshals payload with
// encoding/json, brings it into canonical form and derives the refs. For
// content, use EncodeContent.
func Encode(typ string, payload any) ([]byte, error) {
	p, err := Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("encode %s node: %w", typ, err)
	}
	refs, err := deriveRefs(typ, p)
	if err != nil {
		return nil, fmt.Errorf("encode %s node: %w", typ, err)
	}
	return encode(typ, p, refs)
}

// EncodeContent returns the bytes of a content node: a text, and the hashes of
// its artifacts in the order given, without duplicates.
func EncodeContent(text string, artifacts []Hash) ([]byte, error) {
	p := AppendString(make([]byte, 0, len(text)+len(text)/16+2), text)
	return encode(TypeContent, p, unique(artifacts))
}

const begin = `{"payload":`

// encode returns the bytes of a node. Every node is made here, so a payload that [Decode] would refuse
// is refused here: once it is stored, nothing that refers to it can be read or continued. The refs are
// those that the payload derives.
func encode(typ string, payload []byte, refs []Hash) ([]byte, error) {
	b := make([]byte, 0, len(payload)+67*len(refs)+len(typ)+40)
	b = append(append(b, begin...), payload...)
	s := scanner{data: b, at: len(begin)}
	if !s.value(1) || s.at != len(b) {
		err := checkValue(payload, MaxDepth-1)
		if err == nil {
			err = errNotCanonical
		}
		return nil, fmt.Errorf("encode %s node: %w", typ, err)
	}
	b = append(b, `,"refs":`...)
	b = appendHashes(b, refs)
	b = append(b, `,"type":"`...)
	b = append(b, typ...)
	b = append(b, `"}`...)
	if len(b) > MaxBytes {
		return nil, fmt.Errorf("encode %s node: %w", typ, ErrTooLarge)
	}
	return b, nil
}

// Decode reads a node's bytes. It accepts only what Encode writes: exactly the
// three keys, canonical spelling, known type, refs that the payload derives.
func Decode(data []byte) (Node, error) {
	n, err := decode(data)
	if err != nil {
		return Node{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return n, nil
}

func decode(data []byte) (Node, error) {
	if len(data) > MaxBytes {
		return Node{}, ErrTooLarge
	}
	s := scanner{data: data}
	n, ok := s.node()
	if !ok {
		if canon, err := canonicalize(data); err != nil {
			return Node{}, err
		} else if !bytes.Equal(canon, data) {
			return Node{}, errNotCanonical
		}
		return Node{}, errors.New("want exactly the keys payload, refs, type")
	}
	return n, checkRefs(n)
}

// node reads a node in the one spelling that encode writes.
func (s *scanner) node() (n Node, ok bool) {
	if !s.take(begin) || !s.value(1) {
		return n, false
	}
	n.Payload, n.Refs = s.data[len(begin):s.at:s.at], []Hash{}
	if !s.take(`,"refs":[`) {
		return n, false
	}
	for more := !s.take("]"); more; more = !s.take("]") {
		if len(n.Refs) > 0 && !s.take(",") {
			return n, false
		}
		h, ok := s.hash()
		if !ok {
			return n, false
		}
		n.Refs = append(n.Refs, h)
	}
	if !s.take(`,"type":`) {
		return n, false
	}
	quote := s.at
	if !s.take(`"`) {
		return n, false
	}
	s.at = quote
	if !s.text() {
		return n, false
	}
	typ, err := Unquote(s.data[quote:s.at])
	n.Type = typ
	return n, err == nil && s.take("}") && s.at == len(s.data)
}

// hash reads a hash other than the zero Hash.
func (s *scanner) hash() (h Hash, ok bool) {
	end := s.at + len(quoted)
	if end > len(s.data) || h.UnmarshalJSON(s.data[s.at:end]) != nil || h.IsZero() {
		return h, false
	}
	s.at = end
	return h, true
}
