// Package soak supports randomized tests of promises: it determines how many rounds they run, and records
// their results.
//
// A test has a default number of rounds in CI. It runs a fraction of that elsewhere, where a person waits for it, and on
// a slow machine, see [SpeedEnv]. The command tools/soak asks for more with [Env]. The result is an attribute of the
// test, see [testing.T.Attr]: the summary of a run prints it, and docs/promises.md has the latest ones.
package soak

import (
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Env is the environment variable with the number of rounds to run instead of the default.
const Env = "PLAIT_SOAK_ROUNDS"

// SpeedEnv is the environment variable with the speed of the machine, as a part of that on which the default numbers
// were chosen: tools/testsum measures it. A test does that part of its rounds, at least one.
const SpeedEnv = "PLAIT_SOAK_SPEED"

// PortionEnv is the environment variable that selects which of many cases a test tries: "3/20" selects the fourth of
// twenty portions. See [Portion].
const PortionEnv = "PLAIT_SOAK_PORTION"

// Attr is the name of the attribute that holds a figure.
const Attr = "figure"

// Rounds returns the number of rounds to run: first on a fast machine, fewer on a slow one, unless Env says otherwise.
func Rounds(t testing.TB, first int) int {
	t.Helper()
	text := os.Getenv(Env)
	if text == "" {
		return timely(first)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: want a number of rounds", Env, text)
	}
	return n
}

// Checks has rapid check the properties of a test Rounds(t, first) times, and returns that number. The flag is the
// program's: it stays set while a parallel test runs.
func Checks(t *testing.T, first int) int {
	t.Helper()
	checks := flag.Lookup("rapid.checks").Value
	was, n := checks.String(), Rounds(t, first)
	if err := checks.Set(strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checks.Set(was) })
	return n
}

// timely returns the part of n that suits the speed of the machine, at least 1.
func timely(n int) int {
	speed, err := strconv.ParseFloat(os.Getenv(SpeedEnv), 64)
	if err != nil || speed <= 0 || speed > 1 {
		return n
	}
	return int(math.Ceil(speed * float64(n)))
}

// Portion returns the elements of all to try in this run: random many, chosen at random, or with PortionEnv a portion.
// Which portion an element is in depends only on its text, so all portions together are all, even if all varies a bit.
func Portion[T any](t testing.TB, all []T, random int) []T {
	t.Helper()
	all = slices.Clone(all)
	text := os.Getenv(PortionEnv)
	if text == "" {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all[:min(timely(random), len(all))]
	}
	var k, n uint64
	if _, err := fmt.Sscanf(text, "%d/%d", &k, &n); err != nil || k >= n {
		t.Fatalf("%s=%s: want a portion, such as 3/20", PortionEnv, text)
	}
	return slices.DeleteFunc(all, func(x T) bool {
		sum := sha256.Sum256(fmt.Append(nil, x))
		return binary.BigEndian.Uint64(sum[:])%n != k
	})
}

// share is how many times more is tried in CI than elsewhere, where a person waits.
const share = 8

// Tries returns how often a test does something on a fast machine: all times in CI, elsewhere a fraction of that,
// rounded up. With the race detector, which makes a try many times slower, it is few.
func Tries(all, few int) int {
	switch {
	case raced:
		return few
	case os.Getenv("CI") == "":
		return (all + share - 1) / share
	}
	return all
}

// Figure records the result of a test in words: "25 power cuts, 1213 reported steps, none lost". It does nothing if
// the test failed.
func Figure(t testing.TB, format string, args ...any) {
	t.Helper()
	if !t.Failed() {
		t.Attr(Attr, fmt.Sprintf(format, args...))
	}
}
