package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestInMemory checks where commands keep temporary files, and that none of them is visible outside or left over.
func TestInMemory(t *testing.T) {
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("mount nothing: %v", err)
		}
		t.Skipf("NOT TESTED: mounting is not allowed: %v", err)
	}
	if have := available(); have < enough {
		t.Skipf("NOT TESTED: %d KiB of memory are available, it takes %d", have, enough)
	}
	for _, tt := range []struct{ name, chosen, want string }{
		{"in memory", "", "tmpfs"},
		{"where somebody wants them", t.TempDir(), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TMPDIR", tt.chosen)
			t.Setenv("GOTMPDIR", "")
			command, done := inMemory()
			out, err := command("df --output=fstype,target $TMPDIR | tail -n 1; touch $TMPDIR/file; echo $TMPDIR").Output()
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(string(out), "\n")
			dir := lines[1]
			on := strings.Fields(lines[0])
			if tt.want != "" && (on[0] != tt.want || on[1] != dir) || tt.chosen != "" && dir != tt.chosen {
				t.Errorf("they are in %s, on %v", dir, on)
			}
			if _, err := os.Stat(dir + "/file"); (err != nil) != (tt.chosen == "") {
				t.Errorf("of a file in %s this process sees: %v", dir, err)
			}
			done()
			if _, err := os.Stat(dir); (err != nil) != (tt.chosen == "") {
				t.Errorf("%s at the end: %v", dir, err)
			}
		})
	}
}
