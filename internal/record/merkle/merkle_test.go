package merkle

import (
	"bytes"
	"fmt"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

// TestRoot compares roots with those of another implementation, at every size around powers of two.
func TestRoot(t *testing.T) {
	var tree Tree
	var hashes []tlog.Hash // stored, as that package wants them
	read := tlog.HashReaderFunc(func(at []int64) ([]tlog.Hash, error) {
		found := make([]tlog.Hash, len(at))
		for i, n := range at {
			found[i] = hashes[n]
		}
		return found, nil
	})
	for n := range int64(1100) {
		want, err := tlog.TreeHash(n, read)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 && tlog.Hash(tree.Root()) != want {
			t.Fatalf("root of %d leaves is %s, not %s", n, tree.Root(), want)
		}
		parsed, err := Parse(tree.Bytes())
		if err != nil || parsed != tree {
			t.Fatalf("a tree of %d leaves is not what was written: %v", n, err)
		}
		data := fmt.Append(nil, "leaf ", n)
		tree.Append(Leaf(data[:3], data[3:]))
		more, err := tlog.StoredHashes(n, data, read)
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, more...)
	}
}

func TestEmptyRoot(t *testing.T) {
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // RFC 6962, 2.1
	if root := new(Tree).Root(); root.String() != "sha256:"+empty && root.String() != empty {
		t.Error(root)
	}
}

func FuzzParse(f *testing.F) {
	var tree Tree
	for n := range 6 {
		f.Add(tree.Bytes())
		tree.Append(Leaf([]byte{byte(n)}))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tree, err := Parse(data)
		if err == nil && len(data) > 0 && !bytes.Equal(tree.Bytes(), data) {
			t.Errorf("%x is read as %x", data, tree.Bytes())
		}
	})
}
