// Command testsum runs shell commands that print the output of go test -json, -p of them at a time in the given
// order, and summarizes it: a line for each package, the output of what failed or was skipped, the ten slowest packages
// and tests, the figures that tests reported (see internal/testing/soak), and last how many tests passed, failed and
// were skipped. It exits 1 if a test or a command failed or no test ran. First it measures how fast the machine is, and
// tells the tests.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/plait-run/plait/internal/testing/soak"
)

// slowest is how many packages, and how many tests, are listed with their times.
const slowest = 10

type event struct {
	Action, Package, Test, Output string
	Key, Value                    string // of an attribute
	Elapsed                       float64
}

func main() {
	atOnce := flag.Int("p", 2, "how many `commands` run at a time")
	flag.Parse()
	if os.Getenv(soak.Env) == "" && os.Getenv(soak.SpeedEnv) == "" {
		s := min(speed(), 1)
		os.Setenv(soak.SpeedEnv, fmt.Sprintf("%.2f", s))
		fmt.Printf("speed of this machine: %.2f, so random tests do %.0f %% of their tries\n", s, 100*s)
	}
	t := newTally(os.Stdout)
	command, done := inMemory()
	t.run(command, *atOnce, flag.Args())
	done()
	if !t.end() {
		os.Exit(1)
	}
}

// A tally is what has been seen so far.
type tally struct {
	mu              sync.Mutex
	to              io.Writer
	count           map[string]int
	output          map[string][]string // by package and test, while it runs
	broken          bool
	packages, tests []event // that have ended; no subtests
	figures         []string
}

func newTally(to io.Writer) *tally {
	return &tally{to: to, count: map[string]int{}, output: map[string][]string{}}
}

// run runs the lines with command, at most atOnce at a time.
func (t *tally) run(command func(line string) *exec.Cmd, atOnce int, lines []string) {
	var running errgroup.Group
	running.SetLimit(atOnce)
	for _, line := range lines {
		running.Go(func() error {
			if err := t.runOne(command(line)); err != nil {
				t.mu.Lock()
				defer t.mu.Unlock()
				fmt.Fprintf(t.to, "%s: %v\n", line, err)
				t.broken = true
			}
			return nil
		})
	}
	running.Wait()
}

// shell returns a command that runs a shell line.
func shell(line string) *exec.Cmd { return exec.Command("sh", "-c", line) }

func (t *tally) runOne(cmd *exec.Cmd) error {
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	t.read(out)
	return cmd.Wait()
}

// read records the events from r.
func (t *tally) read(r io.Reader) {
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			t.line(line)
		}
		if err != nil {
			return
		}
	}
}

func (t *tally) line(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ev event
	if json.Unmarshal(line, &ev) != nil {
		fmt.Fprint(t.to, string(line)) // the go command's own words
		return
	}
	t.see(ev)
}

// end prints the summary, and reports whether all is well.
func (t *tally) end() bool {
	t.list("packages", t.packages)
	t.list("tests", t.tests)
	if len(t.figures) > 0 {
		fmt.Fprintf(t.to, "figures:\n  %s\n", strings.Join(t.figures, "\n  "))
	}
	fmt.Fprintf(t.to, "%d passed, %d failed, %d skipped\n", t.count["pass"], t.count["fail"], t.count["skip"])
	return t.count["fail"] == 0 && t.count["pass"] > 0 && !t.broken
}

// list prints the slowest of some. A test's time counts from its start: a parallel test
// includes the time it waited for others.
func (t *tally) list(what string, of []event) {
	if len(of) == 0 {
		return
	}
	slices.SortStableFunc(of, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	fmt.Fprintf(t.to, "slowest %s:\n", what)
	for _, ev := range of[:min(slowest, len(of))] {
		fmt.Fprintf(t.to, "%8.1fs %s\n", ev.Elapsed, strings.TrimSpace(ev.Package+" "+ev.Test))
	}
}

// unended prints the output of the tests of a package that have not ended: it was killed, or a test panicked.
func (t *tally) unended(pkg string) {
	for _, key := range slices.Sorted(maps.Keys(t.output)) {
		if strings.HasPrefix(key, pkg+" ") && key != pkg+" " {
			fmt.Fprint(t.to, strings.Join(t.output[key], ""))
			delete(t.output, key)
		}
	}
}

// see records one event.
func (t *tally) see(ev event) {
	key := ev.Package + " " + ev.Test
	switch ev.Action {
	case "output", "build-output":
		t.output[key] = append(t.output[key], ev.Output)
	case "attr":
		if ev.Key == soak.Attr {
			t.figures = append(t.figures, ev.Test+": "+ev.Value)
		}
	case "pass", "fail", "skip":
		if ev.Test != "" {
			t.count[ev.Action]++
		}
		if ev.Action == "fail" || ev.Action == "skip" && ev.Test != "" {
			fmt.Fprint(t.to, strings.Join(t.output[key], ""))
		}
		if ev.Test == "" && ev.Action == "fail" {
			t.unended(ev.Package)
		}
		if ev.Test == "" && ev.Action != "skip" {
			fmt.Fprintf(t.to, "%-5s %s  %.1fs\n", ev.Action, ev.Package, ev.Elapsed)
			t.packages = append(t.packages, ev)
		}
		if ev.Test != "" && !strings.Contains(ev.Test, "/") {
			t.tests = append(t.tests, ev)
		}
		delete(t.output, key)
		t.broken = t.broken || ev.Action == "fail"
	case "build-fail":
		for k, lines := range t.output {
			if strings.HasSuffix(k, " ") {
				fmt.Fprint(t.to, strings.Join(lines, ""))
				delete(t.output, k)
			}
		}
		t.broken = true
	}
}
