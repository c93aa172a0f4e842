package thread_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
)

func TestLocalID(t *testing.T) {
	for id, want := range map[string]bool{
		"cmd-1": true, "0": true, strings.Repeat("a", 32): true,
		"": false, "-a": false, "A": false, "a.b": false, "a/b": false, "a b": false, "é": false, "a\n": false,
		strings.Repeat("a", 33): false,
	} {
		if got := thread.LocalID(id); got != want {
			t.Errorf("LocalID(%q) = %v", id, got)
		}
	}
}

func TestRanOn(t *testing.T) {
	a, b, tried := "a", "b", []thread.EarlierAttempt{{}}
	for _, x := range []struct {
		thread.Detail
		want string
	}{
		{thread.Detail{TreeBefore: &a, TreeAfter: &a}, "a"},
		{thread.Detail{TreeBefore: &a, TreeAfter: &b}, ""},
		{thread.Detail{TreeAfter: &a}, ""},
		{thread.Detail{TreeBefore: &a, TreeAfter: &a, Attempts: tried}, ""},
		{thread.Detail{}, ""},
	} {
		if got := x.RanOn(); got != x.want {
			t.Errorf("%+v: %q, want %q", x.Detail, got, x.want)
		}
	}
}

func TestAnchor(t *testing.T) {
	long := strings.Repeat("x", 200<<10) // longer than what is read at a time
	for _, tt := range []struct {
		name, file string
		start, end int
		text       string
		lines      int
	}{
		{"middle", "a\nb\nc\nd\n", 2, 3, "b\nc\n", 4},
		{"last without a line feed", "a\nb", 2, 2, "b", 2},
		{"beyond", "a\nb\n", 2, 5, "b\n", 2},
		{"none", "a\nb\n", 3, 5, "", 2},
		{"empty", "", 1, 1, "", 0},
		{"an empty line", "\n\n", 2, 2, "\n", 2},
		{"a long line", "a\n" + long + "\nb\n", 2, 2, long + "\n", 3},
		{"bytes", "\xff\x00\r\n\xfe", 1, 2, "\xff\x00\r\n\xfe", 2},
	} {
		got, err := thread.Anchor(strings.NewReader(tt.file), tt.start, tt.end)
		want := thread.Anchored{Hash: dag.Sum([]byte(tt.file)), Lines: tt.lines, Text: []byte(tt.text)}
		if err != nil || got.Hash != want.Hash || got.Lines != want.Lines || !bytes.Equal(got.Text, want.Text) {
			t.Errorf("%s: %d lines, %d bytes of text, %v", tt.name, got.Lines, len(got.Text), err)
		}
	}
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestAnchorIsBounded(t *testing.T) {
	if _, err := thread.Anchor(zeros{}, 2, 2); !errors.Is(err, thread.ErrAnchor) {
		t.Errorf("a file without an end: %v", err)
	}
	if _, err := thread.Anchor(io.LimitReader(zeros{}, thread.MaxAnchorText+1), 1, 1); !errors.Is(err, thread.ErrAnchor) {
		t.Errorf("a line that is too long: %v", err)
	}
	got, err := thread.Anchor(io.LimitReader(zeros{}, thread.MaxAnchored), 2, 2)
	if err != nil || got.Lines != 1 {
		t.Errorf("a file that is just small enough: %+v, %v", got.Lines, err)
	}
}
