package dag

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

// A Node is one immutable record.
type Node struct {
	Type    string
	Payload []byte // canonical JSON
	Refs    []Hash // derived; application code reads the payload instead
}

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
	return Close(append(Open(len(p)+67*len(refs)), p...), typ, refs)
}

// EncodeContent returns the bytes of a content node: a text, and the hashes of
// its artifacts in the order given, doubles left out.
func EncodeContent(text string, artifacts []Hash) ([]byte, error) {
	b := Open(len(text) + len(text)/16 + 67*len(artifacts))
	return Close(AppendString(b, text), TypeContent, unique(artifacts))
}

// Open begins a node whose payload the caller appends, in canonical form, and
// [Close] ends. They exist for codecs, checked against Encode, of nodes that are
// written far too often to be parsed again on the way out.
func Open(room int) []byte {
	return append(make([]byte, 0, room+40), `{"payload":`...)
}

// Close ends a node that Open began: b holds it up to the end of the payload.
func Close(b []byte, typ string, refs []Hash) ([]byte, error) {
	b = append(b, `,"refs":`...)
	b = AppendHashes(b, refs)
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
	canon, err := Canonical(data)
	if err != nil {
		return Node{}, err
	}
	if !bytes.Equal(canon, data) {
		return Node{}, errors.New("not in canonical form")
	}
	var raw struct {
		Type    *string          `json:"type"`
		Payload json.RawMessage  `json:"payload"`
		Refs    *json.RawMessage `json:"refs"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&raw); err != nil {
		return Node{}, err
	}
	if raw.Type == nil || raw.Payload == nil || raw.Refs == nil {
		return Node{}, errors.New("want exactly the keys payload, refs, type")
	}
	var refs []Hash
	if err := json.Unmarshal(*raw.Refs, &refs); err != nil {
		return Node{}, fmt.Errorf("refs: %w", err)
	}
	n := Node{Type: *raw.Type, Payload: raw.Payload, Refs: refs}
	if err := checkRefs(n); err != nil {
		return Node{}, err
	}
	// encoding/json matches keys without regard to case; the spelling must
	// still be ours to the letter.
	if again, err := Close(append(Open(len(data)), n.Payload...), n.Type, n.Refs); err != nil ||
		!bytes.Equal(again, data) {
		return Node{}, errors.New("want exactly the keys payload, refs, type")
	}
	return n, nil
}
