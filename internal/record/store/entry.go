package store

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/merkle"
)

// entryFormat begins the bytes of each entry.
const entryFormat = "plait.entry/1"

// A Secret salts the entries of one task. It is removed with the task: what remains of the entries then, their
// leaves, tells nothing about them, even if their content can be guessed.
type Secret [32]byte

// Salt returns the salt of the entry at a position. Whoever is shown it learns nothing about the salts of others.
func (s Secret) Salt(pos int64) [32]byte {
	b := make([]byte, 0, len(s)+8)
	return sha256.Sum256(binary.BigEndian.AppendUint64(append(b, s[:]...), uint64(pos)))
}

// Leaf returns the leaf of e in the tree over the journal: SHA-256 of a zero byte, the salt and the entry. Its index is
// the position less one.
func (e *Event) Leaf(s Secret) dag.Hash {
	salt := s.Salt(e.Pos)
	return merkle.Leaf(salt[:], e.appendEntry(make([]byte, 0, 1<<10))) // most fit, and need no allocation
}

// Entry returns what is hashed of e: the format, the position, the number in its task and the time as 8 bytes each,
// then all texts, the payload and the proof, each behind its length in 4 bytes. All numbers are big-endian.
func (e *Event) Entry() []byte { return e.appendEntry(nil) }

func (e *Event) appendEntry(b []byte) []byte {
	b = append(b, entryFormat...)
	for _, n := range [...]int64{e.Pos, e.Seq, e.TS} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for _, s := range [...]string{e.Type, e.Task, e.Thread, e.Instance, e.Attempt} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(e.Payload))), e.Payload...)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(e.Proof))), e.Proof...)
}
