package history_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/history"
)

// tileDir reads tiles as others do, from a directory.
type tileDir string

func (tileDir) Height() int { return 8 }

func (d tileDir) ReadTiles(tiles []tlog.Tile) (all [][]byte, err error) {
	for _, t := range tiles {
		data, err := os.ReadFile(filepath.Join(string(d), strings.Replace(t.Path(), "tile/8/", "tile/", 1)))
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

func (tileDir) SaveTiles([]tlog.Tile, [][]byte) {}

// TestExportTiles exports logs of some sizes into one directory, and proves entries and older heads with another
// library from the files.
func TestExportTiles(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []int{1, 255, 256, 257, 1000, 66000} {
		j := filed(n, 0)
		head := headOf(t, j)
		if err := history.Export(t.Context(), j, head, []byte(head.String()), dir); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
		if err != nil {
			t.Fatal(err)
		}
		tree, err := tlog.ParseTree([]byte(strings.Replace(string(data), head.Origin, "go.sum database tree", 1)))
		if err != nil {
			t.Fatal(err)
		}
		r := tlog.TileHashReader(tree, tileDir(dir))
		for _, i := range []int{0, n / 3, n - 1} {
			proof, err := tlog.ProveRecord(tree.N, int64(i), r)
			if err == nil {
				err = tlog.CheckRecord(proof, tree.N, tree.Hash, int64(i), tlog.Hash(j.leaves[i]))
			}
			if err != nil {
				t.Errorf("entry %d of %d: %v", i+1, n, err)
			}
			older := headOf(t, &journal{leaves: j.leaves[:i+1]})
			changed, err := tlog.ProveTree(tree.N, older.Size, r)
			if err == nil {
				err = tlog.CheckTree(changed, tree.N, tree.Hash, older.Size, tlog.Hash(older.Root))
			}
			if err != nil {
				t.Errorf("%d of %d: %v", i+1, n, err)
			}
		}
	}
	head := headOf(t, filed(20, 0))
	head.Root = dag.Hash{1}
	if err := history.Export(t.Context(), filed(20, 0), head, nil, t.TempDir()); !errors.Is(err, history.ErrRewritten) {
		t.Errorf("another log: got %v", err)
	}
}
