package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/sys/proc"
)

func TestSandbox(t *testing.T) {
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
		{"guarded", agent.Write, Use{Gateway: g}, h.Bwrap, "bubblewrap: workspace-write", "--ro-bind " + tree + "/.git",
			false},
		{"forwarded", agent.Read, Use{Gateway: g}, h.Bwrap, "bubblewrap: read-only",
			"-- /bin/forward to " + g.Socket() + " /bin/a b", false},
		{"granted", agent.Read, Use{Gateway: g, Network: true, Write: []string{tree}}, h.Bwrap,
			"bubblewrap: read-only, write " + tree + ", network", "-- /bin/a b", true},
		{"direct", agent.Read, Use{}, h.Bwrap, "bubblewrap: read-only, network, via: direct", "-- /bin/a b", true},
		{"alone", agent.Read, Use{Alone: true}, h.Bwrap, "bubblewrap: read-only", "--unshare-net", false},
		{"full", agent.Full, Use{Gateway: g}, h.Bwrap, "none", "/bin/a b", true},
		{"no sandbox", agent.Write, Use{Gateway: g}, "", "none: each command and each change is asked for", "/bin/a b", true},
	} {
		h.Bwrap = tt.bwrap
		b := h.For(agent.Request{Dir: tree, Access: tt.access, Home: dir}, tt.use)
		path, args := b.Around(tree, "/bin/a", []string{"b"})
		line := strings.Join(append([]string{path}, args...), " ")
		if b.String() != tt.says || !strings.Contains(line, tt.line) || b.Online != tt.online {
			t.Errorf("%s: %q, online %t, %s", tt.name, b, b.Online, line)
		}
		if b.Enforced != strings.HasPrefix(line, "/bin/bwrap ") || b.Enforced == b.Online &&
			slices.Contains(args, "--unshare-net") {
			t.Errorf("%s: enforced %t: %s", tt.name, b.Enforced, line)
		}
	}
}

// dial names the socket that the test's own program connects to, in place of running tests.
const dial = "PLAIT_TEST_DIAL"

func TestMain(m *testing.M) {
	if path := os.Getenv(dial); path != "" {
		c, err := net.Dial("unix", path)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		c.Close()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestSocketsAreHidden has a program in the sandbox connect to sockets: to that of its gateway it can, to one of
// another program in the directory for temporary files it cannot. The tree is in that directory too, and can be read or
// written, but a link in it shows nothing hidden.
func TestSocketsAreHidden(t *testing.T) {
	h := NewHost(Config{Getenv: func(string) string { return "" }})
	if h.Bwrap == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("bubblewrap is not installed")
		}
		t.Skip("NOT TESTED: bubblewrap is not installed")
	}
	dir, err := os.MkdirTemp("", "s-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	tree := filepath.Join(dir, "tree")
	if err := os.MkdirAll(filepath.Join(tree, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "hidden", "key")
	if err := errors.Join(os.Mkdir(filepath.Dir(secret), 0o700), os.WriteFile(secret, nil, 0o600),
		os.Symlink(filepath.Dir(secret), filepath.Join(tree, ".qwen")),
		os.Symlink(filepath.Dir(secret), filepath.Join(tree, "granted"))); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	other, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	g, err := gateway.Open(gateway.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func(access agent.Access, env, path string, args ...string) error {
		b := h.For(agent.Request{Dir: tree, Access: access, Home: dir},
			Use{Gateway: g, Network: true, Read: []string{filepath.Dir(g.Socket())},
				Write: []string{filepath.Join(tree, "granted")}})
		path, args = b.Around(filepath.Join(tree, "in"), path, args)
		cmd := exec.Command(path, args...)
		cmd.Env = []string{env}
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	}
	for _, access := range []agent.Access{agent.Read, agent.Write} {
		if err := run(access, dial+"="+g.Socket(), self); err != nil {
			t.Errorf("%s: the gateway: %v", access, err)
		}
		if err := run(access, dial+"="+socket, self); err == nil {
			t.Errorf("%s: a program in the sandbox reached the socket of another", access)
		}
		if err := run(access, "A=b", "/bin/ls", filepath.Join(tree, "in"), tree); err != nil {
			t.Errorf("%s: the tree: %v", access, err)
		}
		if err := run(access, "A=b", "/bin/touch", filepath.Join(tree, "in",
			"new")); (err == nil) != (access == agent.Write) {
			t.Errorf("%s: a file in the directory that it works in: %v", access, err)
		}
		if err := run(access, "A=b", "/bin/cat", secret); err == nil {
			t.Errorf("%s: a link in the tree shows what is hidden", access)
		}
		if err := run(access, "A=b", "/bin/mkdir", filepath.Join(dir, "new")); err == nil {
			t.Errorf("%s: a directory could be made beside the tree", access)
		}
	}
}

// TestSSHAgent checks that an agent's program neither knows nor reaches the SSH agent: not even if its socket is in the
// tree, which the program can read.
func TestSSHAgent(t *testing.T) {
	dir, err := os.MkdirTemp("", "s-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	t.Setenv("SSH_AUTH_SOCK", socket)
	has := func(pass ...string) bool {
		return slices.Contains(Environ(agent.Request{}, pass, nil), "SSH_AUTH_SOCK="+socket)
	}
	if has() || !has("SSH_AUTH_SOCK") || !has("SSH_*") {
		t.Errorf("in the environment: %t, once passed: %t, %t", has(), has("SSH_AUTH_SOCK"), has("SSH_*"))
	}
	h := NewHost(Config{Getenv: os.Getenv})
	if h.Bwrap == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("bubblewrap is not installed")
		}
		t.Skip("NOT TESTED: bubblewrap is not installed")
	}
	ssh, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ssh.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, access := range []agent.Access{agent.Read, agent.Write} {
		path, args := h.For(agent.Request{Dir: dir, Access: access, Home: dir}, Use{Alone: true}).Around(dir, self, nil)
		cmd := exec.Command(path, args...)
		cmd.Env = []string{dial + "=" + socket}
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "dial unix") {
			t.Errorf("%s: the SSH agent was reached, or the program did not run: %v\n%s", access, err, out)
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
	if _, err := Workdir(filepath.Join(dir, "gone"), ""); err == nil ||
		!strings.Contains(err.Error(), "restore the working tree") {
		t.Error(err)
	}
}

// What a cell hides is not there for a sandbox in it, which cannot make it either.
func TestInCell(t *testing.T) {
	home := t.TempDir()
	key := filepath.Join(home, ".ssh")
	if err := os.Mkdir(key, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, cell := range []*proc.Cell{nil, {Hide: []string{home}}} {
		h := &Host{Config{Getenv: func(string) string { return home }, Cell: cell}, "/bin/bwrap"}
		_, args := h.For(agent.Request{Dir: "/srv", Access: agent.Read, Home: "/srv"}, Use{Alone: true}).Around("/srv",
			"/bin/true", nil)
		if slices.Contains(args, key) == (cell != nil) {
			t.Errorf("in cell %v: %q", cell, args)
		}
	}
}
