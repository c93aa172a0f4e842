package thread

import (
	"encoding/json"
	"strconv"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// Answers are what people answered at the node that a step follows, each as its [ApprovalHash], in order of the hashes.
// Details of older versions lack them.
type Answers struct {
	Hashes  []dag.Hash
	Present bool
}

// MarshalJSON writes the hashes, or null for none.
func (a Answers) MarshalJSON() ([]byte, error) {
	if len(a.Hashes) == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(a.Hashes)
}

// UnmarshalJSON reads hashes, or null.
func (a *Answers) UnmarshalJSON(data []byte) error {
	a.Present = true
	return json.Unmarshal(data, &a.Hashes)
}

// Decided reports whether a person, a policy or the time has answered a gate.
func Decided(g store.Gate) bool {
	switch g.State {
	case store.GateApproved, store.GateRejected, store.GateAnswered, store.GateExpired:
		return true
	}
	return false
}

// ApprovalHash returns what the step after a gate says of its answer: the SHA-256 of the canonical form of {at, by,
// digest, editedDigest, gate, grant, signature, text, verdict, via}, where gate is the id, verdict the state, at the
// time of the answer in Unix ms, and text and signature are the SHA-256 of the answer's text and of its signature. An
// answer that is not signed has no key signature.
func ApprovalHash(g store.Gate) dag.Hash {
	b := strconv.AppendInt([]byte(`{"at":`), g.AnsweredAt, 10)
	b = str(b, `,"by":`, g.By)
	b = hash(b, `,"digest":`, g.Digest)
	b = hash(b, `,"editedDigest":`, g.EditedDigest)
	b = str(b, `,"gate":`, g.ID)
	b = str(b, `,"grant":`, string(g.Grant))
	if g.Signature != "" {
		b = hash(b, `,"signature":`, dag.Sum([]byte(g.Signature)))
	}
	b = hash(b, `,"text":`, dag.Sum([]byte(g.Text)))
	b = str(b, `,"verdict":`, string(g.State))
	b = str(b, `,"via":`, string(g.Via))
	return dag.Sum(append(b, '}'))
}

func str(b []byte, key, s string) []byte           { return dag.AppendString(append(b, key...), s) }
func hash(b []byte, key string, h dag.Hash) []byte { return h.Append(append(b, key...)) }
