package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// benchEnv is set to the record's URL in the processes that take steps for BenchmarkStep; benchWriters to
// the number of the first writer in one, and how many there are.
const (
	benchEnv     = "PLAIT_TEST_BENCH"
	benchWriters = "PLAIT_TEST_BENCH_WRITERS"
)

// TestMain makes the test binary a process with writers if a benchmark started it.
func TestMain(m *testing.M) {
	if url := os.Getenv(benchEnv); url != "" {
		if err := beWriters(url, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// beWriters reads how long to take steps, line by line, and answers each with how many it took per second.
func beWriters(url string, in io.Reader, out io.Writer) error {
	var first, writers int
	if _, err := fmt.Sscan(os.Getenv(benchWriters), &first, &writers); err != nil {
		return err
	}
	ctx := context.Background()
	s, err := Open(ctx, Config{URL: url})
	if err != nil {
		return err
	}
	defer s.Close()
	var all []*stepper
	for w := range writers {
		one, err := newStepper(ctx, s, first+w)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	fmt.Fprintln(out, "ready")
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		d, err := time.ParseDuration(lines.Text())
		if err != nil {
			return err
		}
		r, err := rate(d, all)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, r)
	}
	return lines.Err()
}

// processes starts some of this binary, each with its share of writers, and returns a function that lets all
// take steps concurrently for a while and returns how many they took per second together.
func processes(b testing.TB, url string, n, writers int) func(time.Duration) float64 {
	b.Helper()
	type process struct {
		in  io.Writer
		out *bufio.Reader
	}
	var all []process
	for i := range n {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), benchEnv+"="+url, fmt.Sprintf("%s=%d %d", benchWriters, i*writers, writers/n))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err = errors.Join(err, err2, cmd.Start()); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			in.Close()
			if err := cmd.Wait(); err != nil {
				b.Error(err)
			}
		})
		p := process{in, bufio.NewReader(out)}
		if said, err := p.out.ReadString('\n'); err != nil || said != "ready\n" {
			b.Fatalf("a process of writers says %q: %v", said, err)
		}
		all = append(all, p)
	}
	return func(d time.Duration) (sum float64) {
		b.Helper()
		for _, p := range all {
			fmt.Fprintln(p.in, d)
		}
		for _, p := range all {
			said, err := p.out.ReadString('\n')
			r, err2 := strconv.ParseFloat(said[:max(0, len(said)-1)], 64)
			if err = errors.Join(err, err2); err != nil {
				b.Fatalf("a process of writers says %q: %v", said, err)
			}
			sum += r
		}
		return sum
	}
}
