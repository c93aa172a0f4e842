package history

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/merkle"
	"github.com/plait-run/plait/internal/record/store"
)

// tileWidth is how many hashes a whole tile has.
const tileWidth = 256

// Export writes the tree over the entries of a checkpoint, and then the checkpoint as it is signed, into a directory, as
// C2SP's tlog-tiles has them: with these, others can prove of an entry, or of an older checkpoint, that the log has it.
// The entries are not written. The error matches ErrRewritten if the log does not begin with the checkpoint's entries.
func Export(ctx context.Context, log store.Journal, head Checkpoint, signed []byte, dir string) error {
	var tree merkle.Tree
	t := tiles{dir: filepath.Join(dir, "tile")}
	err := leaves(ctx, log, 0, head.Size, func(leaf dag.Hash) error {
		tree.Append(leaf)
		return t.add(0, leaf)
	})
	if err == nil && tree.Root() != head.Root {
		err = fmt.Errorf("the log was %w", ErrRewritten)
	}
	for level := 0; err == nil && level < len(t.levels); level++ {
		err = t.write(level)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "checkpoint"), signed, 0o644)
	}
	if err != nil {
		return fmt.Errorf("export log: %w", err)
	}
	return nil
}

// tiles writes the tiles of a tree that grows.
type tiles struct {
	dir    string
	levels []tile // the last of each level, which is not whole
}

type tile struct {
	n      int64 // of its level
	hashes []byte
	tree   merkle.Tree // over its hashes
}

// add adds a hash to a level, and that of each tile that is whole then to the next one.
func (t *tiles) add(level int, h dag.Hash) error {
	if level == len(t.levels) {
		t.levels = append(t.levels, tile{})
	}
	l := &t.levels[level]
	l.hashes = append(l.hashes, h[:]...)
	l.tree.Append(h)
	if l.tree.Size() < tileWidth {
		return nil
	}
	if err := t.write(level); err != nil {
		return err
	}
	root := l.tree.Root()
	*l = tile{n: l.n + 1, hashes: l.hashes[:0]}
	return t.add(level+1, root)
}

// write writes the last tile of a level, unless it is empty.
func (t *tiles) write(level int) error {
	l := &t.levels[level]
	width := l.tree.Size()
	if width == 0 {
		return nil
	}
	name := fmt.Sprintf("%03d", l.n%1000)
	for n := l.n / 1000; n > 0; n /= 1000 {
		name = fmt.Sprintf("x%03d/%s", n%1000, name)
	}
	if width < tileWidth {
		name += fmt.Sprintf(".p/%d", width)
	}
	file := filepath.Join(t.dir, fmt.Sprint(level), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, l.hashes, 0o644)
}
