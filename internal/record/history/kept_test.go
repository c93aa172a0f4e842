package history_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/merkle"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

// A journal is a log of leaves alone. It counts the entries that are read.
type journal struct {
	store.Journal
	leaves []dag.Hash
	tree   *merkle.Tree // what the record says of itself; nil: that of the leaves
	read   int
	events []store.Event // about keys and acceptances
}

func (j *journal) Events(_ context.Context, _ int64, f store.EventFilter) (all []store.Event, err error) {
	for _, ev := range j.events {
		if slices.Contains(f.Types, ev.Type) {
			all = append(all, ev)
		}
	}
	return all, nil
}

// filed returns a journal of n entries, those from one on with other content than usual; zero: none of them.
func filed(n, other int) *journal {
	j := &journal{}
	for i := range n {
		data := binary.BigEndian.AppendUint64(nil, uint64(i))
		if other > 0 && i+1 >= other {
			data = append(data, 'x')
		}
		j.leaves = append(j.leaves, merkle.Leaf(data))
	}
	return j
}

func (j *journal) Log(context.Context) (store.Log, error) {
	l := store.Log{Origin: "01KDVDTC00000000000000000A"}
	if j.tree != nil {
		l.Tree = *j.tree
		return l, nil
	}
	for _, leaf := range j.leaves {
		l.Tree.Append(leaf)
	}
	return l, nil
}

func (j *journal) Entries(_ context.Context, after int64, limit int) (all []store.LogEntry, err error) {
	for i, leaf := range j.leaves[after:min(int(after)+limit, len(j.leaves))] {
		j.read++
		all = append(all, store.LogEntry{Pos: after + 1 + int64(i), Leaf: leaf})
	}
	return all, nil
}

func plain(c history.Checkpoint) ([]byte, error) { return []byte(c.String()), nil }

func headOf(t *testing.T, j *journal) history.Checkpoint {
	t.Helper()
	l, err := j.Log(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return history.Head(l)
}

// TestExtend extends checkpoints, and counts what is read for that.
func TestExtend(t *testing.T) {
	for name, x := range map[string]struct {
		from, to int
		frontier func(file string) error // done to it in between; nil: nothing
		read     int
	}{
		"the first":         {-1, 3000, nil, 0},
		"from nothing":      {0, 3000, nil, 3000},
		"what is new":       {2500, 3900, nil, 1400},
		"nothing is new":    {3900, 3900, nil, 0},
		"without frontier":  {2500, 3900, os.Remove, 3900},
		"a damaged one":     {2500, 3900, func(f string) error { return os.Truncate(f, 40) }, 3900},
		"one of other size": {2500, 3900, tree(filed(2499, 0)), 3900},
		"one of other root": {2500, 3900, tree(filed(2500, 9)), 3900},
	} {
		t.Run(name, func(t *testing.T) {
			k := history.Kept{File: filepath.Join(t.TempDir(), "new", "checkpoint")}
			if x.from >= 0 {
				if _, err := k.Extend(t.Context(), filed(x.from, 0), plain); err != nil {
					t.Fatal(err)
				}
				if x.frontier != nil {
					if err := x.frontier(k.File + ".tree"); err != nil {
						t.Fatal(err)
					}
				}
			}
			j := filed(x.to, 0)
			got, err := k.Extend(t.Context(), j, plain)
			if err != nil || got != headOf(t, j) {
				t.Fatalf("got %+v, %v", got, err)
			}
			if j.read != x.read {
				t.Errorf("%d entries were read, want %d", j.read, x.read)
			}
			if data, err := os.ReadFile(k.File); err != nil || string(data) != got.String() {
				t.Errorf("kept is %s, %v", data, err)
			}
		})
	}
}

// tree returns a function that puts the frontier of a journal into a file.
func tree(j *journal) func(string) error {
	l, _ := j.Log(context.Background())
	return func(file string) error { return os.WriteFile(file, l.Tree.Bytes(), 0o644) }
}

// TestRefused tries to extend a checkpoint of 2500 entries with logs that do not continue it: it stays.
func TestRefused(t *testing.T) {
	behind, _ := filed(3900, 3500).Log(t.Context())
	gone := filed(3900, 0)
	gone.leaves[2999] = dag.Hash{}
	for name, x := range map[string]struct {
		log  *journal
		want error
		says string
	}{
		"the last are gone":  {filed(2499, 0), history.ErrShorter, "it has 2499 entries, the checkpoint 2500"},
		"an old one changed": {filed(3900, 100), history.ErrRewritten, "at entry 1"},
		"the last changed":   {filed(2500, 2500), history.ErrRewritten, "at entry 2497"},
		"not what was filed": {&journal{leaves: filed(3900, 0).leaves, tree: &behind.Tree}, history.ErrRewritten,
			"at entry 3073"},
		"one is gone": {gone, history.ErrRewritten, "entry 3000 is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			k := history.Kept{File: filepath.Join(t.TempDir(), "checkpoint")}
			if _, err := k.Extend(t.Context(), filed(2500, 0), plain); err != nil {
				t.Fatal(err)
			}
			kept, err := os.ReadFile(k.File)
			if err != nil {
				t.Fatal(err)
			}
			for _, frontier := range []bool{true, false} {
				_, err := k.Extend(t.Context(), x.log, func(history.Checkpoint) ([]byte, error) {
					t.Error("it was signed")
					return nil, nil
				})
				if !errors.Is(err, x.want) {
					t.Errorf("with frontier %v: got %v", frontier, err)
				}
				if frontier && !strings.Contains(fmt.Sprint(err), x.says) {
					t.Errorf("got %v, want %q", err, x.says)
				}
				if now, err := os.ReadFile(k.File); err != nil || string(now) != string(kept) {
					t.Errorf("kept is %q now, %v", now, err)
				}
				os.Remove(k.File + ".tree")
			}
		})
	}
}

// TestAtOnce extends a checkpoint from several goroutines: each signs alone.
func TestAtOnce(t *testing.T) {
	k := history.Kept{File: filepath.Join(t.TempDir(), "checkpoint")}
	var signing sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := k.Extend(t.Context(), filed(41, 0), func(head history.Checkpoint) ([]byte, error) {
				if !signing.TryLock() {
					return nil, errors.New("another one signs")
				}
				defer signing.Unlock()
				return plain(head)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestExtendAccepted extends a checkpoint of 40 entries by a log of 30, and one of 50 others, of which a person says
// why that is so.
func TestExtendAccepted(t *testing.T) {
	was, restored := filed(40, 0), filed(30, 0)
	seen := headOf(t, was)
	counts := func(n byte) history.Counts {
		return func(key ssh.PublicKey, _ time.Time) error {
			if sshsig.Fingerprint(key) != sshsig.Fingerprint(person(t, n).PublicKey()) {
				return errors.New("unknown")
			}
			return nil
		}
	}
	word := accepted()
	word.Kept, word.Size, word.Root = 30, seen.Size, seen.Root
	other := word
	other.Root = dag.Sum(nil)
	copied := history.Acceptance{At: 1, Copy: history.Origin("01KDVDTC00000000000000000B"), Kept: 40, Origin: seen.Origin,
		Reason: "a copy", Root: seen.Root, Size: 40}
	for name, x := range map[string]struct {
		log    *journal
		word   history.Acceptance
		counts history.Counts
		want   error
		says   string
	}{
		"accepted":           {restored, word, counts(1), nil, ""},
		"by somebody else":   {restored, word, counts(2), history.ErrShorter, "which does not count: unknown"},
		"nobody's counts":    {restored, word, nil, history.ErrShorter, "which does not count"},
		"of another head":    {restored, other, counts(1), history.ErrShorter, ""},
		"another continues":  {filed(50, 31), word, counts(1), nil, ""},
		"what is kept is so": {filed(50, 0), copied, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := history.Kept{File: filepath.Join(t.TempDir(), "checkpoint"), Accepts: x.counts}
			if _, err := k.Extend(t.Context(), was, plain); err != nil {
				t.Fatal(err)
			}
			x.log.events = []store.Event{acceptance(t, x.word)}
			got, err := k.Extend(t.Context(), x.log, plain)
			if !errors.Is(err, x.want) || err != nil && !strings.Contains(err.Error(), x.says) {
				t.Fatalf("got %v", err)
			}
			if data, err := os.ReadFile(k.File); err != nil || x.want == nil && string(data) != got.String() ||
				x.want != nil && string(data) != seen.String() {
				t.Errorf("kept is %s, %v", data, err)
			}
		})
	}
}
