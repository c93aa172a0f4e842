package proc_test

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/sys/proc"
)

func TestHugeLine(t *testing.T) {
	t.Parallel()
	const size = 100 << 20
	cfg := fakeConfig(t, "line", strconv.Itoa(size))
	var out counter
	cfg.Stdout = &out
	type line struct {
		Len int
		Cut bool
	}
	var lines []line
	cfg.Line = func(b []byte, cut bool) error { lines = append(lines, line{len(b), cut}); return nil }
	mustRun(t.Context(), t, cfg)
	if want := int64(size + len("\nafter\n")); out.n != want {
		t.Errorf("got %d bytes, want %d", out.n, want)
	}
	if diff := cmp.Diff([]line{{proc.DefaultMaxLine, true}, {len("after"), false}}, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestLinesAroundTheLimit(t *testing.T) {
	t.Parallel()
	type line struct {
		Text string
		Cut  bool
	}
	for _, tt := range []struct {
		name, in string
		want     []line
	}{
		{"shorter", "123\n", []line{{"123", false}}},
		{"as long", "1234\n5\n", []line{{"1234", false}, {"5", false}}},
		{"longer", "12345\n6\n", []line{{"1234", true}, {"6", false}}},
		{"much longer", "123456789abcdef\n\n6", []line{{"1234", true}, {"", false}, {"6", false}}},
		{"longer at the end", "1\n23456", []line{{"1", false}, {"2345", true}}},
		{"as long at the end", "1234", []line{{"1234", false}}},
		{"empty lines", "\n\n", []line{{"", false}, {"", false}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := fakeConfig(t, "echo")
			cfg.Stdin, cfg.MaxLine = strings.NewReader(tt.in), 4
			var got []line
			cfg.Line = func(b []byte, cut bool) error { got = append(got, line{string(b), cut}); return nil }
			mustRun(t.Context(), t, cfg)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, stream, bytes string
		max                 int64
		capped              bool
	}{
		{"stdout for ever", "stdout", "0", 1<<20 + 13, true},
		{"stderr for ever", "stderr", "0", 1<<20 + 13, true},
		{"one byte more", "stdout", "131073", 131072, true},
		{"exactly", "stdout", "131072", 131072, false},
		{"the default", "stdout", "0", 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := fakeConfig(t, "flood", tt.bytes, tt.stream)
			cfg.MaxBytes = tt.max
			var out, errs counter
			cfg.Stdout, cfg.Stderr = &out, &errs
			var lines, cuts int64
			cfg.Line = func(b []byte, cut bool) error {
				lines += int64(len(b)) + 1
				if cut {
					cuts++
					lines--
				}
				return nil
			}
			res := mustRun(t.Context(), t, cfg)
			want := tt.max
			if want == 0 {
				want = proc.DefaultMaxBytes
			}
			got, other := out.n, errs.n
			if tt.stream == "stderr" {
				got, other = other, got
				lines = want
			}
			if got != want || other != 0 || lines != want {
				t.Errorf("kept %d bytes (%d in lines), %d of the other stream; want %d and 0", got, lines, other, want)
			}
			if (res.Reason == proc.Capped) != tt.capped {
				t.Errorf("got reason %q, want capped: %t", res.Reason, tt.capped)
			}
		})
	}
}

// FuzzLines checks that lines do not depend on how the output is split into reads.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), 2, 3)
	f.Add(hostile, 1, 4)
	f.Fuzz(func(t *testing.T, in []byte, chunk, maxLine int) {
		if chunk < 1 || maxLine < 1 || maxLine > 1<<20 {
			return
		}
		type line struct {
			Text string
			Cut  bool
		}
		var want, got []line
		for l := range bytes.Lines(in) {
			l = bytes.TrimSuffix(l, []byte("\n"))
			want = append(want, line{string(l[:min(len(l), maxLine)]), len(l) > maxLine})
		}
		proc.CutLines(in, chunk, maxLine, func(b []byte, cut bool) error {
			got = append(got, line{string(b), cut})
			return nil
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

// A counter counts bytes.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

var _ io.Writer = (*counter)(nil)
