package proc

import (
	"os"
	"strings"
	"testing"
)

func TestParseStat(t *testing.T) {
	tail := " S 1 20 30 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 4 0 987654 1 2 3"
	for _, tt := range []struct {
		name, in string
		want     entry
		ok       bool
	}{
		{"plain", "12 (sh)" + tail, entry{12, 1, 20, 30, 'S', 4, 987654}, true},
		{"spaces", "12 (tmux: server)" + tail, entry{12, 1, 20, 30, 'S', 4, 987654}, true},
		{"parentheses", "12 ((sd-pam))" + tail, entry{12, 1, 20, 30, 'S', 4, 987654}, true},
		{"a whole line as name", "12 (x) R 7 7 7 0 ()" + tail, entry{12, 1, 20, 30, 'S', 4, 987654}, true},
		{"newline", "12 (a\nb)" + tail + "\n", entry{12, 1, 20, 30, 'S', 4, 987654}, true},
		{"empty name", "12 ()" + tail, entry{12, 1, 20, 30, 'S', 4, 987654}, true},
		{"empty", "", entry{}, false},
		{"no name", "12 sh" + tail, entry{}, false},
		{"cut", "12 (sh) S 1 20 30 0", entry{}, false},
		{"no pid", "(sh)" + tail, entry{}, false},
		{"word for a number", "12 (sh)" + strings.Replace(tail, "20", "twenty", 1), entry{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parseStat([]byte(tt.in))
			if ok != tt.ok || ok && got != tt.want {
				t.Errorf("got %+v, %t; want %+v, %t", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func FuzzParseStat(f *testing.F) {
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own)
	f.Add([]byte("1 (a) b) S 0 0 0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, ok := parseStat(b); ok && (e.pid <= 0 || e.state == 0) {
			t.Errorf("took %q for %+v", b, e)
		}
	})
}

func TestTableHasUs(t *testing.T) {
	all, err := table()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.pid == os.Getpid() && e.parent == os.Getppid() && !e.isDead() {
			return
		}
	}
	t.Errorf("the process table of %d entries lacks this process", len(all))
}

func TestMarksDiffer(t *testing.T) {
	if a, b := markOf("01J.1"), markOf("01J.2"); a == b || a&markBit == 0 || b&markBit == 0 || a>>63 != 0 {
		t.Errorf("marks %x and %x", a, b)
	}
}
