package proc_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/sys/proc"
)

func TestEnviron(t *testing.T) {
	for _, kv := range os.Environ() {
		key, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(key, "LC_") || key == "LANG" || key == "TZ" || key == "TMPDIR" || key == "USER" {
			t.Setenv(key, "") // restores it afterwards
			os.Unsetenv(key)
		}
	}
	for _, kv := range [][2]string{
		{"PATH", "/bin"}, {"HOME", "/h"}, {"LC_ALL", "C"}, {"TERM", "xterm"},
		{"PLAIT_HOME", "/secret"}, {"PLAIT_TAG", "outer"}, {"API_TOKEN", "canary"}, {"GOFLAGS", "-v"},
	} {
		t.Setenv(kv[0], kv[1])
	}
	base := []string{"HOME=/h", "LC_ALL=C", "PATH=/bin", "TERM=dumb"}
	for _, tt := range []struct {
		name  string
		pass  []string
		extra map[string]string
		plait []string
		tag   string
		want  []string
	}{
		{name: "nothing asked", want: base},
		{name: "pass", pass: []string{"GOFLAGS", "NOT_SET"}, want: append([]string{"GOFLAGS=-v"}, base...)},
		{name: "extra wins over pass", pass: []string{"GOFLAGS"},
			extra: map[string]string{"GOFLAGS": "x", "HOME": "/other"},
			want:  []string{"GOFLAGS=x", "HOME=/other", "LC_ALL=C", "PATH=/bin", "TERM=dumb"}},
		{name: "plait wins over extra", extra: map[string]string{"PLAIT_ROLE": "forged"},
			plait: []string{"PLAIT_ROLE=tester=1"},
			want:  []string{"HOME=/h", "LC_ALL=C", "PATH=/bin", "PLAIT_ROLE=tester=1", "TERM=dumb"}},
		{name: "the home is never told", pass: []string{"PLAIT_HOME"}, extra: map[string]string{"PLAIT_HOME": "/x"},
			plait: []string{"PLAIT_HOME=/y"}, want: base},
		{name: "only our tag", pass: []string{"PLAIT_TAG"}, extra: map[string]string{"PLAIT_TAG": "x"},
			plait: []string{"PLAIT_TAG=y"}, tag: "mine",
			want: []string{"HOME=/h", "LC_ALL=C", "PATH=/bin", "PLAIT_TAG=mine", "TERM=dumb"}},
		{name: "no tag", pass: []string{"PLAIT_TAG"}, want: base},
		{name: "bad names", extra: map[string]string{"": "x", "A=B": "x", "C\x00": "x", "D": "\x00"}, want: base},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, proc.Environ(tt.pass, tt.extra, tt.plait, tt.tag)); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}
