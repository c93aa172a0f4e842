package thread_test

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/plait-run/plait/internal/record/thread"
)

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for _, tt := range []struct {
		text     string
		from, to int
		want     string
	}{
		{"a\nb\nc\n", 1, 1, "a\n"},
		{"a\nb\nc\n", 2, 3, "b\nc\n"},
		{"a\nb\nc", 3, 9, "c"},
		{"a\nb\n", 3, 4, ""},
		{"", 1, 1, ""},
		{"\n\nb", 2, 3, "\nb"},
		{long + "\n" + long + "2\n", 2, 2, long + "2\n"},
		{long + "\n" + long + "2\n", 1, 1, long + "\n"},
	} {
		got, err := io.ReadAll(thread.Lines(iotest.HalfReader(strings.NewReader(tt.text)), tt.from, tt.to))
		if err != nil || string(got) != tt.want {
			t.Errorf("lines %d to %d of %.20q are %.20q, want %.20q; %v", tt.from, tt.to, tt.text, got, tt.want, err)
		}
	}
	if _, err := io.ReadAll(thread.Lines(iotest.TimeoutReader(strings.NewReader(long+long)), 1, 2)); err == nil {
		t.Error("an error of the text was passed over")
	}
}
