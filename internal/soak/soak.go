// Package soak is for randomized tests of promises: it tells them how many rounds to run, and records
// their results.
//
// A test has a default number of rounds in CI; a person who waits for it gets a share of that. The command tools/soak
// asks for more with [Env]. The result
// is an attribute of the test, see [testing.T.Attr]: the summary of a run prints it, and
// docs/promises.md has the latest ones.
package soak

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// Env is the environment variable with the number of rounds to run instead of the default.
const Env = "PLAIT_SOAK_ROUNDS"

// Attr is the name of the attribute that a figure is.
const Attr = "figure"

// Rounds returns the number of rounds to run: first, unless Env says otherwise.
func Rounds(t testing.TB, first int) int {
	t.Helper()
	text := os.Getenv(Env)
	if text == "" {
		return first
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: want a number of rounds", Env, text)
	}
	return n
}

// share is how many times more is tried in CI than elsewhere, where somebody waits.
const share = 8

// Tries returns how often a test does something: in CI all, elsewhere a share of it, rounded up. With the race detector,
// which makes a try many times slower, it is few; CI runs such tests without it too.
func Tries(all, few int) int {
	switch {
	case raced:
		return few
	case os.Getenv("CI") == "":
		return (all + share - 1) / share
	}
	return all
}

// Figure records the result of a test in words: "25 power cuts, 1213 reported steps, none lost". A test that
// failed records none.
func Figure(t testing.TB, format string, args ...any) {
	t.Helper()
	if !t.Failed() {
		t.Attr(Attr, fmt.Sprintf(format, args...))
	}
}
