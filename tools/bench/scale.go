package main

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/gc"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/verify"
)

// stored returns the size of a store's files on disk after the log is folded in.
func stored(ctx context.Context, s store.Store, dir string) (int64, error) {
	if err := s.Compact(ctx, time.Hour); err != nil {
		return 0, err
	}
	total := int64(0)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	return total, err
}

// sizes measures how many bytes a step of 2 KB adds, early and late in a thread.
func (b *bench) sizes(ctx context.Context) error {
	per := map[int]float64{}
	for _, steps := range []int{50, 1000} {
		// Many threads of that length, so that neither page sizes nor the empty store's
		// own size matter.
		const total = 4000
		s, dir, err := b.open(ctx)
		if err != nil {
			return err
		}
		empty, err := stored(ctx, s, dir)
		if err != nil {
			return err
		}
		for n := range total / steps {
			c, err := newChain(ctx, s, n)
			if err != nil {
				return err
			}
			for range steps {
				if err := c.step(ctx); err != nil {
					return err
				}
			}
		}
		full, err := stored(ctx, s, dir)
		if err != nil {
			return err
		}
		per[steps] = float64(full-empty) / float64(total)
		if err := s.Close(); err != nil {
			return err
		}
	}
	content := float64(len(text(0)))
	few, many := per[50]/content, per[1000]/content
	growth := 100 * (many/few - 1)
	row("bytes per step of 2 KB, threads of 50 steps", atMost(2, few, "× the content"), "%.0f bytes on disk, %.2f×", per[50], few)
	row("bytes per step of 2 KB, threads of 1,000 steps", atMost(10, math.Abs(growth), " % from that"), "%.0f bytes on disk, %.2f×, %+.1f %%", per[1000], many, growth)
	return nil
}

// forkAndWalk measures a fork in the middle of a thread, and reading a long one.
func (b *bench) forkAndWalk(ctx context.Context) error {
	s, dir, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	c, err := newChain(ctx, s, 1)
	if err != nil {
		return err
	}
	if err := c.grow(ctx, 1000); err != nil {
		return err
	}
	before, err := stored(ctx, s, dir)
	if err != nil {
		return err
	}
	r := thread.NewReader(s)
	const forks = 200
	took, alone := make([]float64, 0, forks), make([]float64, 0, forks)
	raw, err := newFloor(b.dir)
	if err != nil {
		return err
	}
	defer raw.close()
	for i := range forks {
		floor := time.Now()
		if err := raw.append(0); err != nil {
			return err
		}
		alone = append(alone, float64(time.Since(floor).Microseconds())/1000)
		begin := time.Now()
		at, ok, err := r.Back(ctx, c.row.Head, 500)
		if err != nil || !ok {
			return fmt.Errorf("find step 500: %v", err)
		}
		fork := thread.Fork(c.row, fmt.Sprintf("01K%023d", i), at, 500, int64(i))
		if err := s.Commit(ctx, store.Batch{Threads: []store.ThreadChange{{Row: fork}}}); err != nil {
			return err
		}
		took = append(took, float64(time.Since(begin).Microseconds())/1000)
	}
	after, err := stored(ctx, s, dir)
	if err != nil {
		return err
	}
	ms, each := median(took), (after-before)/forks
	appends := ms / median(alone)
	row("fork at step 500 of 1,000", goal{text: "≤ 8 appends of the floor, ≤ 1 KB", met: appends <= 8 && each <= 1024},
		"%.2f ms, **%.1f** appends of the floor; %d bytes", ms, appends, each)

	if err := c.grow(ctx, 9000); err != nil {
		return err
	}
	for _, warm := range []bool{false, true} {
		begin := processor()
		var hashes []dag.Hash
		for step, err := range r.Walk(ctx, c.row.Head) {
			if err != nil {
				return err
			}
			hashes = append(hashes, step.Hash)
		}
		d := processor() - begin
		floor, err := hashing(ctx, s, hashes)
		if err != nil {
			return err
		}
		times := d.Seconds() / floor.Seconds()
		name, reach := "cold", atMost(20, times, " × hashing the same bytes")
		if warm {
			name, reach = "warm", goal{}
		}
		row(fmt.Sprintf("walk of %d steps, %s", len(hashes), name), reach, "%.0f ms of CPU, **%.1f×** hashing the same bytes",
			float64(d.Microseconds())/1000, times)
	}
	return nil
}

// hashing returns the processor time that hashing some objects takes.
func hashing(ctx context.Context, s store.Store, hashes []dag.Hash) (time.Duration, error) {
	objects, err := s.Many(ctx, hashes)
	if err != nil {
		return 0, err
	}
	begin := processor()
	for _, o := range objects {
		dag.Sum(o.Data)
	}
	return processor() - begin, nil
}

// grow appends n steps, many to a batch.
func (c *chain) grow(ctx context.Context, n int) error {
	for n > 0 {
		first := c.row.State()
		var all store.Batch
		for range min(n, 500) {
			batch, err := c.draft()
			if err != nil {
				return err
			}
			all.Objects = append(all.Objects, batch.Objects...)
			n--
		}
		all.Threads = []store.ThreadChange{{Row: c.row, From: first}}
		if err := c.s.Commit(ctx, all); err != nil {
			return err
		}
	}
	return nil
}

// fill makes a store of about that many nodes: threads of 1,000 steps.
func (b *bench) fill(ctx context.Context, nodes int) (*sqlite.Store, string, []*chain, error) {
	s, dir, err := b.open(ctx)
	if err != nil {
		return nil, "", nil, err
	}
	var chains []*chain
	for n := 0; n < nodes/2000; n++ {
		c, err := newChain(ctx, s, n)
		if err != nil {
			return nil, "", nil, err
		}
		if err := c.grow(ctx, 1000); err != nil {
			return nil, "", nil, err
		}
		chains = append(chains, c)
	}
	return s, dir, chains, nil
}

// opening measures opening a large store and reading a head from it.
func (b *bench) opening(ctx context.Context) error {
	s, dir, chains, err := b.fill(ctx, b.nodes)
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	begin := time.Now()
	s, err = sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	t, err := s.Thread(ctx, chains[len(chains)/2].row.ID)
	if err != nil {
		return err
	}
	if _, err := s.Get(ctx, t.Head); err != nil {
		return err
	}
	row(fmt.Sprintf("open a store of %d nodes and read a head", b.nodes), goal{}, "%.1f ms", float64(time.Since(begin).Microseconds())/1000)
	if err := s.Close(); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// checking measures verify and gc of a store that is half garbage.
func (b *bench) checking(ctx context.Context) error {
	s, dir, chains, err := b.fill(ctx, b.checked)
	if err != nil {
		return err
	}
	defer s.Close()
	used := processor()
	if err := s.Scan(ctx, func(store.Object) error { return nil }); err != nil {
		return err
	}
	floor := processor() - used // to read and hash each object
	begin, used := time.Now(), processor()
	report, err := verify.All(ctx, verify.Config{Store: s})
	if err != nil {
		return err
	}
	took, cpu := time.Since(begin), processor()-used
	bad := ""
	if !report.OK() {
		bad = fmt.Sprintf(", %d problems: %s", len(report.Problems), report.Problems[0].What)
	}
	row(fmt.Sprintf("verify of %d objects", report.Objects),
		atMost(2, cpu.Seconds()/floor.Seconds(), " × reading and hashing them").
			unless("each node is also decoded and checked against its canonical form, and each route is decided again"),
		"%.1f s, %.1f s of CPU, **%.2f×** reading and hashing them%s", took.Seconds(), cpu.Seconds(), cpu.Seconds()/floor.Seconds(), bad)
	checked := cpu

	var remove []string
	for i, c := range chains {
		if i%2 == 0 {
			remove = append(remove, c.row.ID)
		}
	}
	if err := s.Commit(ctx, store.Batch{Remove: remove}); err != nil {
		return err
	}
	before, err := stored(ctx, s, dir)
	if err != nil {
		return err
	}
	runtime.GC()
	begin, used = time.Now(), processor()
	res, err := gc.Run(ctx, gc.Config{Store: s})
	if err != nil {
		return err
	}
	took, cpu = time.Since(begin), processor()-used
	after, err := stored(ctx, s, dir)
	if err != nil {
		return err
	}
	row(fmt.Sprintf("gc of %d objects, %d of them garbage", res.Scanned, res.Deleted),
		atMost(1, cpu.Seconds()/checked.Seconds(), " verify"), "%.1f s, %.1f s of CPU, **%.2f** of verify; %d MiB → %d MiB on disk",
		took.Seconds(), cpu.Seconds(), cpu.Seconds()/checked.Seconds(), before>>20, after>>20)
	return nil
}
