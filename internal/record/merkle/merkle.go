// Package merkle computes the tree of RFC 6962, section 2.1, over a list of leaves that only grows.
//
// Of the tree it keeps the frontier: the roots of the complete subtrees of which it consists, at most one of each
// height. That suffices to append to it and to tell its root. A Tree is a value: a copy is not changed by what is
// appended to the original.
//
// Prove and Proven show that a tree has some of its leaves to whoever knows the root only. The package does not know what
// the leaves are of.
package merkle

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/plait-run/plait/internal/record/dag"
)

// maxHeight bounds the size of a tree: 2⁴⁸ leaves.
const maxHeight = 48

// The first byte of what is hashed distinguishes leaves from nodes.
const (
	leafPrefix = 0
	nodePrefix = 1
)

// A Tree is the frontier of a tree. The zero Tree is empty.
type Tree struct {
	size  int64
	nodes [maxHeight]dag.Hash // nodes[i] is the root of 2ⁱ leaves, if bit i of size is set
}

// Leaf returns the hash of a leaf whose data is the concatenation of parts.
func Leaf(parts ...[]byte) dag.Hash {
	b := append(make([]byte, 0, 1<<10), leafPrefix)
	for _, part := range parts {
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

func node(left, right dag.Hash) dag.Hash {
	var b [1 + 2*dag.Size]byte
	b[0] = nodePrefix
	copy(b[1:], left[:])
	copy(b[1+dag.Size:], right[:])
	return sha256.Sum256(b[:])
}

// Size returns the number of leaves.
func (t *Tree) Size() int64 { return t.size }

// Append adds a leaf, given by its hash.
func (t *Tree) Append(leaf dag.Hash) {
	i := 0
	for ; t.size>>i&1 == 1; i++ {
		leaf = node(t.nodes[i], leaf)
		t.nodes[i] = dag.Hash{}
	}
	t.nodes[i] = leaf
	t.size++
}

// Root returns the root hash; that of an empty tree is the SHA-256 of nothing.
func (t *Tree) Root() dag.Hash {
	if t.size == 0 {
		return dag.Sum(nil)
	}
	i := bits.TrailingZeros64(uint64(t.size))
	root := t.nodes[i]
	for i++; t.size>>i != 0; i++ {
		if t.size>>i&1 == 1 {
			root = node(t.nodes[i], root)
		}
	}
	return root
}

// Bytes returns t as [Parse] reads it: the size as eight bytes, big-endian, then the nodes, the highest first.
func (t *Tree) Bytes() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+bits.OnesCount64(uint64(t.size))*dag.Size), uint64(t.size))
	for i := bits.Len64(uint64(t.size)) - 1; i >= 0; i-- {
		if t.size>>i&1 == 1 {
			b = append(b, t.nodes[i][:]...)
		}
	}
	return b
}

// Parse returns the tree that [Tree.Bytes] wrote. No bytes are an empty tree.
func Parse(b []byte) (Tree, error) {
	var t Tree
	if len(b) == 0 {
		return t, nil
	}
	if len(b) < 8 {
		return t, fmt.Errorf("a tree of %d bytes", len(b))
	}
	size := binary.BigEndian.Uint64(b)
	b = b[8:]
	if size>>maxHeight != 0 || len(b) != bits.OnesCount64(size)*dag.Size {
		return t, fmt.Errorf("a tree of %d leaves has %d bytes of nodes", size, len(b))
	}
	t.size = int64(size)
	for i := bits.Len64(size) - 1; i >= 0; i-- {
		if size>>i&1 == 1 {
			b = b[copy(t.nodes[i][:], b):]
		}
	}
	return t, nil
}

// Differ returns the first run of leaves, from an index to before another, of whose common node t and u have different
// hashes: one of the leaves was changed. Both trees must have the same size; ok is false if they are equal.
func (t *Tree) Differ(u *Tree) (from, to int64, ok bool) {
	for i := bits.Len64(uint64(t.size)) - 1; i >= 0; i-- {
		if t.size>>i&1 == 0 {
			continue
		}
		to = from + 1<<i
		if t.nodes[i] != u.nodes[i] {
			return from, to, true
		}
		from = to
	}
	return 0, 0, false
}
