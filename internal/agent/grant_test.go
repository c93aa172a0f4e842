package agent

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestGranted(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree, home, out := dir+"/tree", dir+"/out/home", dir+"/out"
	for _, d := range []string{tree + "/build", home, dir + "/shared"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"planted": out, "up": "..", "inner": "build"} {
		if err := os.Symlink(to, filepath.Join(tree, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		access Access
		place  string
		want   string // "": refused
	}{
		{Write, "build", tree + "/build"},
		{Write, "inner", tree + "/build"},
		{Write, "new", tree + "/new"},
		{Write, dir + "/shared", dir + "/shared"},
		{Read, dir + "/shared", dir + "/shared"},
		{Read, "build", ""},
		{Read, tree + "/build", ""},
		{Write, "planted", ""},
		{Write, "up", ""},
		{Write, "up/shared", ""},
		{Write, "../shared", ""},
		{Write, home, ""},
		{Write, home + "/homes", ""},
		{Write, out, ""},
		{Write, "/", ""},
	} {
		got, err := Request{Dir: tree, Access: tt.access}.Granted([]string{tt.place}, []string{home})
		switch {
		case tt.want == "" && err == nil:
			t.Errorf("%s, access %s: %q is granted", tt.place, tt.access, got)
		case tt.want != "" && (err != nil || !slices.Equal(got, []string{tt.want})):
			t.Errorf("%s, access %s: %q, %v; want %q", tt.place, tt.access, got, err, tt.want)
		}
	}
}
