package merkle

import (
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/dag"
)

// TestProve proves random sets of leaves, and changes something of each proof.
func TestProve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tree Tree
		leaves := make([]dag.Hash, rapid.IntRange(1, 70).Draw(t, "size"))
		for i := range leaves {
			leaves[i] = Leaf([]byte{byte(i)})
			tree.Append(leaves[i])
		}
		size := int64(len(leaves))
		at := slices.Sorted(slices.Values(rapid.SliceOfNDistinct(rapid.Int64Range(0, size-1), 1, -1, rapid.ID[int64]).
			Draw(t, "at")))
		some := make([]dag.Hash, len(at))
		for i, index := range at {
			some[i] = leaves[index]
		}
		proof := Prove(leaves, at)
		if root, err := Proven(size, at, some, proof); err != nil || root != tree.Root() {
			t.Fatalf("%d of %d: %v, %v", at, size, root, err)
		}
		other := slices.Clone(some)
		other[0][0] ^= 1
		if root, err := Proven(size, at, other, proof); err == nil && root == tree.Root() {
			t.Error("another leaf is proven")
		}
		if root, err := Proven(size, at, some, append(slices.Clone(proof), dag.Hash{})); err == nil {
			t.Errorf("too long a proof has the root %v", root)
		}
		if len(proof) > 0 {
			if root, err := Proven(size, at, some, proof[1:]); err == nil {
				t.Errorf("too short a proof has the root %v", root)
			}
		}
		if len(at) > 1 {
			slices.Reverse(at)
			if _, err := Proven(size, at, some, proof); err == nil {
				t.Error("leaves out of order are proven")
			}
		}
	})
}

// TestSingle checks the proof of a single leaf with another implementation, which wants it from the leaf upward.
func TestSingle(t *testing.T) {
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(at []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(at))
		for i, index := range at {
			out[i] = stored[index]
		}
		return out, nil
	})
	var leaves []dag.Hash
	for i := range int64(40) {
		data := []byte{byte(i)}
		add, err := tlog.StoredHashes(i, data, read)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, add...)
		leaves = append(leaves, Leaf(data))
	}
	for index := range int64(40) {
		want, err := tlog.ProveRecord(40, index, read)
		if err != nil {
			t.Fatal(err)
		}
		got := Prove(leaves, []int64{index})
		if len(got) != len(want) {
			t.Fatalf("leaf %d: %d hashes, want %d", index, len(got), len(want))
		}
		for _, h := range want {
			if !slices.Contains(got, dag.Hash(h)) {
				t.Errorf("leaf %d: %v is not in the proof", index, h)
			}
		}
	}
}
