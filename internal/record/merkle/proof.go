package merkle

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
)

// Prove returns what is needed to check that a tree has some of its leaves: the roots of the largest subtrees that have
// none of them, from left to right. at are the indices of these leaves, in ascending order. For a single leaf it is the
// inclusion proof of RFC 6962, from left to right.
func Prove(leaves []dag.Hash, at []int64) []dag.Hash {
	proof := []dag.Hash{}
	walk(0, int64(len(leaves)), at, func(from, n int64) (dag.Hash, error) {
		var t Tree
		for _, leaf := range leaves[from : from+n] {
			t.Append(leaf)
		}
		proof = append(proof, t.Root())
		return dag.Hash{}, nil
	}, func(int64) dag.Hash { return dag.Hash{} })
	return proof
}

// Proven returns the root of a tree of some size that has leaves at the given indices, which must be in ascending
// order, according to a proof that [Prove] returned.
func Proven(size int64, at []int64, leaves, proof []dag.Hash) (dag.Hash, error) {
	if size < 1 || size>>maxHeight != 0 || len(at) != len(leaves) {
		return dag.Hash{}, fmt.Errorf("%d leaves at %d places of a tree of %d", len(leaves), len(at), size)
	}
	for i, index := range at {
		if index < 0 || index >= size || i > 0 && index <= at[i-1] {
			return dag.Hash{}, fmt.Errorf("leaf %d of a tree of %d is out of order", index, size)
		}
	}
	root, err := walk(0, size, at, func(int64, int64) (dag.Hash, error) {
		if len(proof) == 0 {
			return dag.Hash{}, errors.New("the proof is too short")
		}
		h := proof[0]
		proof = proof[1:]
		return h, nil
	}, func(index int64) dag.Hash {
		i, _ := slices.BinarySearch(at, index)
		return leaves[i]
	})
	if err == nil && len(proof) > 0 {
		err = errors.New("the proof is too long")
	}
	return root, err
}

// walk returns the root of the n leaves from an index on, of which it asks leaf for those at some indices, and other
// for the roots of the subtrees between.
func walk(from, n int64, at []int64, other func(from, n int64) (dag.Hash, error), leaf func(int64) dag.Hash) (
	dag.Hash, error) {
	switch {
	case len(at) == 0:
		return other(from, n)
	case n == 1:
		return leaf(from), nil
	}
	k := int64(1) << (bits.Len64(uint64(n-1)) - 1) // the largest power of two below n
	cut, _ := slices.BinarySearch(at, from+k)
	left, err := walk(from, k, at[:cut], other, leaf)
	if err != nil {
		return left, err
	}
	right, err := walk(from+k, n-k, at[cut:], other, leaf)
	return node(left, right), err
}
