package taskdir

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/thread"
)

// within fails the test if do takes longer than most.
func within(t *testing.T, most time.Duration, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { do(); close(done) }()
	select {
	case <-done:
	case <-time.After(most):
		t.Fatalf("%s takes more than %s", what, most)
	}
}

// TestNearestOfMany searches a file of repeated lines for them.
func TestNearestOfMany(t *testing.T) {
	data, lines := bytes.Repeat([]byte("x\n"), 8<<20), bytes.Repeat([]byte("x\n"), thread.MaxAnchorText/2)
	within(t, 2*time.Minute, "it", func() {
		if at := nearest(data, lines, 5000); at != 5000 {
			t.Errorf("it stands at %d", at)
		}
		if at := nearest(data, append(lines[:len(lines)-2:len(lines)-2], 'y'), 1); at != 0 {
			t.Errorf("it stands at %d, and is not there", at)
		}
	})
}

// TestNearest compares with a search at every line.
func TestNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab\n\n ")), 0, 40, -1)
		data, lines, was := text.Draw(t, "data"), text.Draw(t, "lines"), rapid.IntRange(1, 12).Draw(t, "was")
		want := 0
		if asked := strings.TrimSuffix(lines, "\n"); strings.TrimSpace(asked) != "" {
			all := strings.Split(data, "\n")
			n := strings.Count(asked, "\n") + 1
			for i := 0; i+n <= len(all); i++ {
				if strings.Join(all[i:i+n], "\n") == asked && (want == 0 || abs(i+1-was) < abs(want-was)) {
					want = i + 1
				}
			}
		}
		if got := nearest([]byte(data), []byte(lines), was); got != want {
			t.Errorf("%q in %q near %d: at %d, want %d", lines, data, was, got, want)
		}
	})
}

// TestManyCitations resolves many ids among many entries.
func TestManyCitations(t *testing.T) {
	var entries []Entry
	for i := range 200_000 {
		entries = append(entries, Entry{ID: fmt.Sprint("a.e", i), By: "a"})
	}
	entries = append(entries, Entry{ID: "b.e7", By: "b"}, Entry{ID: "a.e9", By: "a", Title: "another"})
	x := NewIndex(entries)
	within(t, 2*time.Minute, "it", func() {
		for i := range 100_000 {
			e, ok := x.Resolve(fmt.Sprint("e", i), "c")
			if want := i != 7 && i != 9; ok != want || ok && e.ID != fmt.Sprint("a.e", i) {
				t.Fatalf("e%d is %+v, %v", i, e, ok)
			}
		}
	})
	for id, want := range map[string]string{"e7": "b.e7", "a.e7": "a.e7", "a.none": "", "c.e1": ""} {
		if e, ok := x.Resolve(id, "b"); e.ID != want || ok != (want != "") {
			t.Errorf("%s is %q", id, e.ID)
		}
	}
}
