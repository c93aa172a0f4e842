// Command soak tests Plait's promises for as long as that takes: each test on its list in rounds, many
// more than in a normal run of the tests. It prints each figure as it comes, and records its progress
// in a file, so that it continues there when started again; -fresh starts over. It stops at the first
// failure, with the test's output, and exits 1.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/testing/soak"
)

// A trial is a test of a promise, and how many rounds of it to run: in all, and in one run.
type trial struct {
	Name, Package, Test string
	All, Run            int
	Module              string // directory of the package's module; "": this one
}

// trials are the tests to run, the shortest first. docs/promises.md says what each is for.
var trials = []trial{
	{"power cuts", "./internal/record/store/sqlite", "^TestPowerCuts$", 500, 50, ""}, // each on two file systems
	{"kills of a store", "./internal/record/store/sqlite", "^TestKill$", 1000, 100, ""},
	{"histories in memory", "./internal/record/verify", "^TestHistories$", 10000, 10000, ""},
	{"histories", "./internal/record/store/sqlite", "^TestHistories$", 300, 100, ""},
	{"planted faults", "./internal/app/bisect", "^TestPlanted$", 20, 20, ""},
	{"installing packages", "./tools/release", "^TestInstall$", 1, 1, ""}, // in a Debian made for it
	{"go install", "./tools/release", "^TestGoInstall$", 1, 1, ""},
	{"kills of a run", "./internal/ui/cli", "^TestKillAnywhere$", 7000, 250, ""}, // a round is a kill, as in the next two
	{"kills of a team", "./internal/ui/cli", "^TestKillTeam$", 2800, 150, ""},
	{"kills of a plan", "./internal/ui/cli", "^TestKillPlan$", 200, 20, ""},
	{"faults of the disk", "./internal/ui/cli", "^TestFaultsOfTheDisk$", 6000, 300, ""},
	{"collections beside writers", "./internal/record/gc", "^TestBesideProcesses$", 10000, 1000, ""},
	{"hostile agents", "./internal/ui/cli", "^TestHostileAgents$", 20, 1, ""},
	{"sequences on Postgres", "./postgres", "^TestStore$", 5000, 1000, "plaitd"},
	{"sequences on Postgres with a bucket", "./postgres", "^TestStoreWithBucket$", 5000, 1000, "plaitd"},
	{"histories on Postgres", "./faults", "^TestHistories$", 50, 50, "plaitd"},
	{"faults of the wire", "./faults", "^TestWire$", 50, 10, "plaitd"}, // each harms every message of a commit
	{"faults of leases", "./faults", "^TestWireOfLeases$", 2, 2, "plaitd"},
	{"cut migrations", "./faults", "^TestMigrationCut$", 2, 2, "plaitd"},
	{"crashes of Postgres", "./faults", "^TestCrashes$", 200, 50, "plaitd"},
	{"zombies", "./faults", "^TestZombie$", 100, 20, "plaitd"},
	{"full disks of Postgres", "./faults", "^TestFullDisk$", 10, 5, "plaitd"},
	{"sweeps beside stagers", "./faults", "^TestSweepBesideStagers$", 5000, 500, "plaitd"},
	{"garbage beside writers on Postgres", "./faults", "^TestCollect$", 200000, 200000, "plaitd"}, // a round is an object
	{"a real S3 server", "./s3", "^TestVersity$", 1, 1, "plaitd"},
	{"crashes of Postgres under runs", "./hosts", "^TestCrashesUnderRuns$", 100, 25, "plaitd"},
	{"kills of hosts", "./hosts", "^TestKillHosts$", 100, 20, "plaitd"},
	{"Temporal's server", "./...", "^TestTemporal$", 50, 10, "plaitd/temporal/servertest"}, // takes minutes to build
	{"troubles of isolated workers", ".", "^TestTroubles$", 8, 8, "plaitd"},                // on River, all of them
	{"faults of isolated workers", ".", "^TestStorm$", 60, 30, "plaitd"},                   // a minute each
	{"faults of a team of hosts", "./hosts", "^TestMatrix$", 1000, 42, "plaitd"},
}

func main() {
	state := flag.String("state", "soak.json", "the `file` with what was tried so far")
	fresh := flag.Bool("fresh", false, "begin anew")
	only := flag.String("only", "", "try only what has this `text` in its name")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *state, *fresh, *only); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// run runs what is left of all trials.
func run(ctx context.Context, state string, fresh bool, only string) error {
	tried := map[string]int{}
	if !fresh {
		data, err := os.ReadFile(state)
		if err == nil {
			err = json.Unmarshal(data, &tried)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, t := range trials {
		for strings.Contains(t.Name, only) && tried[t.Name] < t.All {
			began := time.Now()
			figures, err := t.try(ctx, min(t.Run, t.All-tried[t.Name]), tried[t.Name])
			if err != nil {
				return err
			}
			tried[t.Name] = min(tried[t.Name]+t.Run, t.All)
			data, err := json.MarshalIndent(tried, "", "  ")
			if err == nil {
				err = os.WriteFile(state, append(data, '\n'), 0o644)
			}
			if err != nil {
				return err
			}
			for _, f := range figures {
				fmt.Printf("%s  %s: %s\n", time.Now().Format(time.TimeOnly), t.Name, f)
			}
			fmt.Printf("%s  %s: %d of %d in all, these took %v\n", time.Now().Format(time.TimeOnly),
				t.Name, tried[t.Name], t.All, time.Since(began).Round(time.Second))
		}
	}
	return nil
}

// try runs a test once, for some rounds after those before, and returns its figures.
func (t trial) try(ctx context.Context, rounds, before int) (figures []string, err error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout=2h", "-json", "-run", t.Test, t.Package)
	cmd.Dir = t.Module
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", soak.Env, rounds),
		fmt.Sprintf("%s=%d/%d", soak.PortionEnv, before/t.Run, (t.All+t.Run-1)/t.Run))
	out, err := cmd.Output()
	var said bytes.Buffer
	skipped := false
	for in := bufio.NewReader(bytes.NewReader(out)); ; {
		line, more := in.ReadBytes('\n')
		var ev struct{ Action, Output, Key, Value, Test string }
		switch {
		case json.Unmarshal(line, &ev) != nil:
			said.Write(line)
		case ev.Action == "attr" && ev.Key == soak.Attr:
			figures = append(figures, ev.Value)
		default:
			said.WriteString(ev.Output)
			skipped = skipped || ev.Action == "skip" && ev.Test != ""
		}
		if more != nil {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, errors.New("interrupted; start it again to continue")
	case err != nil || skipped || len(figures) == 0:
		return nil, fmt.Errorf("%s: %s", t.Name, cmp.Or(said.String(), fmt.Sprint(err)))
	}
	return figures, nil
}
