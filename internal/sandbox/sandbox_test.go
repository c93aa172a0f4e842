package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/gateway"
)

func TestBox(t *testing.T) {
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	if err := os.MkdirAll(filepath.Join(tree, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	g, err := gateway.Open(gateway.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	h := &Host{Config{Getenv: func(string) string { return "" }, Forward: []string{"/bin/forward", "to"}}, "/bin/bwrap"}
	for _, tt := range []struct {
		name   string
		access agent.Access
		use    Use
		bwrap  string
		says   string
		line   string // part of the command line
		online bool
	}{
		{"read", agent.Read, Use{Gateway: g}, h.Bwrap, "bubblewrap: read-only", "--unshare-net", false},
		{"write", agent.Write, Use{Gateway: g}, h.Bwrap, "bubblewrap: workspace-write", "--bind " + tree + " " + tree, false},
		{"guarded", agent.Write, Use{Gateway: g}, h.Bwrap, "bubblewrap: workspace-write", "--ro-bind " + tree + "/.git", false},
		{"forwarded", agent.Read, Use{Gateway: g}, h.Bwrap, "bubblewrap: read-only", "-- /bin/forward to " + g.Socket() + " /bin/a b", false},
		{"granted", agent.Read, Use{Gateway: g, Network: true, Write: []string{tree}}, h.Bwrap,
			"bubblewrap: read-only, write " + tree + ", network", "-- /bin/a b", true},
		{"direct", agent.Read, Use{}, h.Bwrap, "bubblewrap: read-only, network, via: direct", "-- /bin/a b", true},
		{"alone", agent.Read, Use{Alone: true}, h.Bwrap, "bubblewrap: read-only", "--unshare-net", false},
		{"full", agent.Full, Use{Gateway: g}, h.Bwrap, "none", "/bin/a b", true},
		{"no wall", agent.Write, Use{Gateway: g}, "", "none: each command and each change is asked for", "/bin/a b", true},
	} {
		h.Bwrap = tt.bwrap
		b := h.Box(agent.Request{Dir: tree, Access: tt.access, Home: dir}, tt.use)
		path, args := b.Around(tree, "/bin/a", []string{"b"})
		line := strings.Join(append([]string{path}, args...), " ")
		if b.String() != tt.says || !strings.Contains(line, tt.line) || b.Online != tt.online {
			t.Errorf("%s: %q, online %t, %s", tt.name, b, b.Online, line)
		}
		if b.Walled != strings.HasPrefix(line, "/bin/bwrap ") || b.Walled == b.Online && slices.Contains(args, "--unshare-net") {
			t.Errorf("%s: walled %t: %s", tt.name, b.Walled, line)
		}
	}
}

func TestWorkdir(t *testing.T) {
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	if err := os.MkdirAll(filepath.Join(tree, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(tree, "out")); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{"": "", "in": "", "out": "leaves the working tree", "none": "does not exist"} {
		_, err := Workdir(tree, at)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", at, err)
		}
	}
	if _, err := Workdir(filepath.Join(dir, "gone"), ""); err == nil || !strings.Contains(err.Error(), "restore the working tree") {
		t.Error(err)
	}
}
