package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/merkle"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/atomicfile"
	"github.com/plait-run/plait/internal/sys/lock"
)

var (
	// ErrShorter is matched by errors about a log that has fewer entries than a checkpoint of it.
	ErrShorter = errors.New("shorter than seen")
	// ErrRewritten is matched by errors about a log that does not begin with the entries of a checkpoint of it.
	ErrRewritten = errors.New("rewritten")
)

// A Kept is the file in which a machine keeps the newest checkpoint of a record's log that it has seen. Processes may
// use it at once.
//
// Next to it is FILE.tree, the frontier of the tree over the checkpoint's entries. So what was added since suffices to
// tell whether the log continues them. Nobody has to trust that file: its root is that of the checkpoint, or it counts
// for nothing, and all entries are read.
type Kept struct {
	File string
	// Accepts says whose word counts for a log that does not continue what is kept; nil: nobody's.
	Accepts Counts
}

// logPage is how many entries are read at a time.
const logPage = 1000

// A Place keeps a checkpoint of a log, and the frontier of the tree over its entries.
type Place interface {
	fmt.Stringer
	// Read returns what is kept. The error matches fs.ErrNotExist if that is nothing. The frontier may be missing.
	Read(ctx context.Context) (signed, tree []byte, err error)
	// Write replaces it.
	Write(ctx context.Context, signed, tree []byte) error
}

// Extend extends what is kept, see [Extend], while no other process does.
func (k Kept) Extend(ctx context.Context, log store.Journal, sign func(head Checkpoint) ([]byte, error),
) (Checkpoint, error) {
	l, err := k.lock(ctx)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("keep checkpoint: %w", err)
	}
	defer l.Release()
	return Extend(ctx, k, k.Accepts, log, sign)
}

// Extend replaces the checkpoint in a place by one of the log as it is now, which sign makes of its head, and returns
// that head. It takes time in proportion to the entries that were added since, and none if there is no checkpoint yet.
// If the log does not continue what is kept, sign is not called, nothing changes, and the error matches ErrShorter or
// ErrRewritten, unless a person accepts that whose word counts; if what is kept is no checkpoint of this log,
// ErrMalformed.
func Extend(ctx context.Context, at Place, accepts Counts, log store.Journal,
	sign func(head Checkpoint) ([]byte, error)) (Checkpoint, error) {
	now, err := log.Log(ctx)
	if err != nil {
		return Checkpoint{}, err
	}
	head := Head(now)
	if err := continues(ctx, at, accepts, log, now); err != nil {
		return head, fmt.Errorf("extend checkpoint in %s: %w", at, err)
	}
	signed, err := sign(head)
	if err != nil {
		return head, err
	}
	if err := at.Write(ctx, signed, now.Tree.Bytes()); err != nil {
		return head, fmt.Errorf("keep checkpoint: %w", err)
	}
	return head, nil
}

// Check returns an error if the log does not continue what is kept, as Extend does.
func (k Kept) Check(ctx context.Context, log store.Journal) error {
	now, err := log.Log(ctx)
	if err == nil {
		err = continues(ctx, k, k.Accepts, log, now)
	}
	return err
}

// String returns the file.
func (k Kept) String() string { return k.File }

// Read returns what is kept.
func (k Kept) Read(context.Context) (signed, tree []byte, err error) {
	if signed, err = os.ReadFile(k.File); err != nil {
		return nil, nil, err
	}
	tree, _ = os.ReadFile(k.tree()) // without it all entries are read
	return signed, tree, nil
}

// Write replaces what is kept. Without its frontier a checkpoint is whole, so it goes first, and only it must survive a
// power cut.
func (k Kept) Write(_ context.Context, signed, tree []byte) error {
	if err := write(k.File, signed); err != nil {
		return err
	}
	return atomicfile.Write(k.tree(), tree, 0o644)
}

func (k Kept) tree() string { return k.File + ".tree" }

// lock keeps other processes from extending the checkpoint. None holds it for long.
func (k Kept) lock(ctx context.Context) (*lock.Lock, error) {
	locks := lock.Locks{Dir: filepath.Join(filepath.Dir(k.File), "locks")}
	for {
		l, err := locks.Acquire(filepath.Base(k.File))
		var held *lock.HeldError
		if !errors.As(err, &held) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// write replaces a file. A power cut leaves the old or the new one.
func write(file string, data []byte) error {
	return atomicfile.Replace(file, 0o644, func(f *os.File) error {
		if _, err := f.Write(data); err != nil {
			return err
		}
		return f.Sync()
	})
}

// continues returns an error if the log does not begin with what is kept.
func continues(ctx context.Context, at Place, accepts Counts, log store.Journal, now store.Log) error {
	data, frontier, err := at.Read(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	kept, ok := unsigned(data)
	if !ok {
		if kept, _, err = open(data, note.VerifierList()); err != nil {
			return err
		}
	}
	if origin := Origin(now.Origin); kept.Origin != origin {
		events, err := log.Events(ctx, 0, KeyEvents())
		if err != nil {
			return err
		}
		if err := ReadKeys(origin, events, nil).own(kept); err != nil {
			return err
		}
	}
	err = begins(ctx, log, now, kept, frontier)
	if !errors.Is(err, ErrShorter) && !errors.Is(err, ErrRewritten) {
		return err
	}
	events, readErr := log.Events(ctx, 0, AcceptanceEvents())
	if readErr != nil {
		return readErr
	}
	ok, why := Accept(events, kept.Size, kept.Root, accepts)
	switch {
	case ok:
		return nil
	case why != nil:
		return fmt.Errorf("%w; %w", err, why)
	}
	return err
}

// begins returns an error if the log does not begin with the entries of a checkpoint of it, whose frontier may be
// missing.
func begins(ctx context.Context, log store.Journal, now store.Log, kept Checkpoint, frontier []byte) error {
	if size := now.Tree.Size(); size < kept.Size {
		return fmt.Errorf("the log is %w: it has %d entries, the checkpoint %d", ErrShorter, size, kept.Size)
	}
	tree, err := grown(ctx, log, kept, frontier)
	if err != nil {
		return err
	}
	if err := grow(ctx, &tree, log, now.Tree.Size()); err != nil {
		return err
	}
	if from, _, differ := tree.Differ(&now.Tree); differ {
		return fmt.Errorf("the log was %w at entry %d", ErrRewritten, from+1)
	}
	return nil
}

// grown returns the tree whose root is in the checkpoint: the frontier, or else that over the entries.
func grown(ctx context.Context, log store.Journal, kept Checkpoint, frontier []byte) (merkle.Tree, error) {
	tree, err := merkle.Parse(frontier)
	if err == nil && tree.Size() == kept.Size && tree.Root() == kept.Root {
		return tree, nil
	}
	tree = merkle.Tree{}
	if err := grow(ctx, &tree, log, kept.Size); err != nil {
		return tree, err
	}
	if tree.Root() != kept.Root {
		return tree, fmt.Errorf("the log was %w: its first %d entries are not those of the checkpoint", ErrRewritten,
			kept.Size)
	}
	return tree, nil
}

// grow adds entries of the log to the tree over those before, up to a size.
func grow(ctx context.Context, tree *merkle.Tree, log store.Journal, size int64) error {
	return leaves(ctx, log, tree.Size(), size, func(leaf dag.Hash) error {
		tree.Append(leaf)
		return nil
	})
}

// leaves calls visit with the leaves of the entries after one position, up to another.
func leaves(ctx context.Context, log store.Journal, after, to int64, visit func(leaf dag.Hash) error) error {
	for after < to {
		page, err := log.Entries(ctx, after, int(min(logPage, to-after)))
		if err != nil {
			return err
		}
		before := after
		for i := range page {
			leaf := page[i].Hash()
			if page[i].Pos != after+1 || leaf.IsZero() {
				break
			}
			if err := visit(leaf); err != nil {
				return err
			}
			after++
		}
		if after == before {
			return fmt.Errorf("the log was %w: entry %d is gone", ErrRewritten, after+1)
		}
	}
	return nil
}
