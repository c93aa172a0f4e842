// Command bench prints the table of docs/benchmarks.md: what durable steps,
// forks, walks and checks cost, as ratios to a floor measured in the same run.
//
// The floor is the least that a durable record can do: append 3 KB to a file and
// fdatasync, one sync for all waiting appends. It is measured before and after each
// rate, so that a slow disk or a busy machine affects both.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plait-run/plait/internal/record/store/sqlite"
)

func main() {
	var b bench
	flag.DurationVar(&b.slice, "slice", time.Second, "how long each rate is measured, per round")
	flag.IntVar(&b.rounds, "rounds", 5, "rounds per rate; the median is printed")
	flag.IntVar(&b.nodes, "nodes", 1_000_000, "nodes of the store that is opened")
	flag.IntVar(&b.checked, "checked", 200_000, "nodes of the store that is collected and verified")
	flag.StringVar(&b.only, "only", "", "parts to run: encoding, commits, shared, team, steps, sizes, walks, forks, joins, byhand, driver, plans, loops, gateway, pages, search, opening, checking, logs, commands; with commas between (default: all)")
	rows := flag.String("rows", "", "expression that the names of the rows of commits and steps match that are measured (default: all)")
	flag.StringVar(&b.dir, "dir", "", "directory in which to make the one to work in (default: that of temporary files)")
	debug.SetGCPercent(400) // same as plait
	profile := flag.String("profile", "", "file for a CPU profile of the parts that are run")
	flag.Parse()
	var err error
	if b.rows, err = regexp.Compile(*rows); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if err := profiled(*profile, func() error { return b.run(context.Background()) }); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// profiled runs do and, if path is not empty, writes its CPU profile there.
func profiled(path string, do func() error) error {
	if path == "" {
		return do()
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	err = do()
	pprof.StopCPUProfile()
	return errors.Join(err, f.Close())
}

type bench struct {
	slice          time.Duration
	rounds         int
	nodes, checked int
	dir, only      string
	rows           *regexp.Regexp // selects commits and steps
}

func (b *bench) run(ctx context.Context) error {
	dir, err := os.MkdirTemp(b.dir, "plait-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b.dir = dir
	fmt.Printf("%s, %d cores, %s/%s\n\n", runtime.Version(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	fmt.Println("| what | measured | goal |\n|---|---|---|")
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"encoding", b.encoding}, {"commits", b.commits}, {"shared", b.shared}, {"team", b.team}, {"steps", b.engineSteps}, {"sizes", b.sizes}, {"walks", b.forkAndWalk},
		{"forks", b.forksAndCalls}, {"joins", b.joinsOverTime}, {"byhand", b.forkByHand}, {"driver", b.driver},
		{"plans", b.plans}, {"loops", b.loops}, {"gateway", b.gateway}, {"pages", b.pages}, {"search", b.search}, {"opening", b.opening}, {"checking", b.checking}, {"logs", b.logs},
		{"commands", b.commands},
	} {
		if b.only != "" && !slices.Contains(strings.Split(b.only, ","), part.name) {
			continue
		}
		if err := part.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open opens a new store in its own directory.
func (b *bench) open(ctx context.Context) (*sqlite.Store, string, error) {
	dir, err := os.MkdirTemp(b.dir, "store-")
	if err != nil {
		return nil, "", err
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	return s, dir, err
}

// rate runs do in writers goroutines for a slice and returns how often it ran per
// second.
func rate(writers int, slice time.Duration, do func(writer int) error) (float64, error) {
	var done atomic.Int64
	var wg sync.WaitGroup
	var failed atomic.Value
	begin := time.Now()
	for w := range writers {
		wg.Go(func() {
			for time.Since(begin) < slice && failed.Load() == nil {
				if err := do(w); err != nil {
					failed.Store(err)
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, err.(error)
	}
	return float64(done.Load()) / time.Since(begin).Seconds(), nil
}
