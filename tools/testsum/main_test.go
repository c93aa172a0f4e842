package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSum(t *testing.T) {
	ended := func(action, test string, elapsed float64) string {
		return fmt.Sprintf(`{"Action":%q,"Package":"p","Test":%q,"Elapsed":%g}`, action, test, elapsed)
	}
	var many []string
	var slow strings.Builder
	for i := range 12 {
		many = append(many, ended("pass", fmt.Sprint("T", i), float64(i)))
		if i >= 2 {
			fmt.Fprintf(&slow, "%8.1fs p T%d\n", float64(13-i), 13-i)
		}
	}
	for _, tt := range []struct {
		name  string
		lines []string
		ok    bool
		want  string
	}{
		{"nothing", nil, false, "0 passed, 0 failed, 0 skipped\n"},
		{"a subtest is counted, not listed", []string{ended("pass", "T/a", 2), ended("pass", "T", 3), ended("pass", "", 4)}, true,
			"pass  p  4.0s\nslowest packages:\n     4.0s p\nslowest tests:\n     3.0s p T\n2 passed, 0 failed, 0 skipped\n"},
		{"what failed is shown", []string{`{"Action":"output","Package":"p","Test":"T","Output":"no\n"}`, ended("fail", "T", 1), ended("pass", "U", 0.5)}, false,
			"no\nslowest tests:\n     1.0s p T\n     0.5s p U\n1 passed, 1 failed, 0 skipped\n"},
		{"a package that does not build", []string{`{"Action":"build-output","ImportPath":"p","Output":"syntax\n"}`, `{"Action":"build-fail","ImportPath":"p"}`, ended("pass", "T", 1)}, false,
			"syntax\nslowest tests:\n     1.0s p T\n1 passed, 0 failed, 0 skipped\n"},
		{"what was cut off", []string{`{"Action":"output","Package":"p","Test":"T","Output":"panic\n"}`, `{"Action":"output","Package":"p","Output":"FAIL\n"}`, ended("fail", "", 2), ended("pass", "U", 1)}, false,
			"FAIL\npanic\nfail  p  2.0s\nslowest packages:\n     2.0s p\nslowest tests:\n     1.0s p U\n1 passed, 0 failed, 0 skipped\n"},
		{"what tests found out", []string{`{"Action":"attr","Package":"p","Test":"T","Key":"figure","Value":"9 cuts"}`, `{"Action":"attr","Key":"else","Value":"x"}`, ended("pass", "T", 1)}, true,
			"slowest tests:\n     1.0s p T\nfigures:\n  T: 9 cuts\n1 passed, 0 failed, 0 skipped\n"},
		{"no more than ten", many, true, "slowest tests:\n" + slow.String() + "12 passed, 0 failed, 0 skipped\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			all := newTally(&out)
			all.read(strings.NewReader(strings.Join(tt.lines, "\n")))
			if ok := all.end(); ok != tt.ok {
				t.Errorf("it is well: %t, want %t", ok, tt.ok)
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestCommands(t *testing.T) {
	const passed = `echo '{"Action":"pass","Package":"p","Test":"T","Elapsed":1}'`
	for _, tt := range []struct {
		name     string
		commands []string
		ok       bool
		want     string
	}{
		{"beside each other", []string{passed, passed, passed}, true, "3 passed, 0 failed, 0 skipped\n"},
		{"one that fails by itself", []string{passed, "exit 3"}, false, "1 passed, 0 failed, 0 skipped\n"},
		{"one that fails after its tests", []string{passed + "; exit 1"}, false, "1 passed, 0 failed, 0 skipped\n"},
		{"none", nil, false, "0 passed, 0 failed, 0 skipped\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			all := newTally(&out)
			all.run(shell, 2, tt.commands)
			if ok := all.end(); ok != tt.ok {
				t.Errorf("it is well: %t, want %t", ok, tt.ok)
			}
			if !strings.HasSuffix(out.String(), tt.want) {
				t.Errorf("it ends otherwise than with %q: %s", tt.want, &out)
			}
		})
	}
}
