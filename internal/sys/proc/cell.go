package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/sys/egress"
	"github.com/plait-run/plait/internal/sys/text"
)

// A Cell keeps untrusted programs away from the rest of a machine that works for several people. Each program gets
// its own user, process, mount, IPC and network namespaces, which end with the process that created them, however that
// ends. Of what is hidden, a program sees only what it is given. Its network is a loopback interface of its own, where
// it reaches its gateway and a proxy.
type Cell struct {
	Bwrap string   // see [Bubblewrap]
	Hide  []string // directories and files that are empty in it
	// Groups bound what the programs of an agent use together, see [Cell.Enter]; nil: Prlimit bounds each of them.
	Groups    *Groups
	Ungrouped error // why Groups is nil
	// Prlimit is the program that sets limits, see [Prlimit]; "": there are none.
	Prlimit   string
	Processes int   // how many processes and threads there can be at once; zero: any number
	Memory    int64 // bytes; zero: any
	FileSize  int64 // bytes of the largest file that they can write; zero: any size
	// Forward is the command line that starts a program which reaches sockets through loopback. A list of them, like PATH,
	// and the program's own command line are appended. The first is at [GatewayPort], the next at the port after it.
	Forward []string
	Egress  egress.Config // of the proxy for the programs of an agent, see [Cell.Enter]
	// Lend returns what the programs of a workspace may read besides it; nil: nothing. Its error says why no program
	// may run in that workspace.
	Lend func(workspace string) ([]string, error)

	group *group        // nil: none
	proxy *egress.Proxy // nil: none
}

// GatewayPort is the port of a program's own loopback interface where it reaches its gateway, proxyPort that of its
// proxy.
const (
	GatewayPort = 4949
	proxyPort   = GatewayPort + 1
)

// Enter returns the cell for the programs of one agent, which share its limits, and reach the public internet and the
// hosts that private names. Call its Leave once they have ended. Other programs in a cell have no network.
func (c *Cell) Enter(private egress.Allowed) (*Cell, error) {
	if c == nil {
		return nil, nil
	}
	own := *c
	var err error
	if own.proxy, err = egress.Open(c.Egress, private); err != nil {
		return nil, err
	}
	if c.Groups == nil {
		return &own, nil
	}
	if own.group, err = c.Groups.group(c.Memory, c.Processes); err != nil {
		return nil, errors.Join(fmt.Errorf("make control group: %w", err), own.proxy.Close())
	}
	return &own, nil
}

// Leave ends what is left in the cell of one agent.
func (c *Cell) Leave() error {
	if c == nil {
		return nil
	}
	err := c.proxy.Close()
	if c.group != nil {
		err = errors.Join(err, c.group.close())
	}
	return err
}

// Variables returns the variables that lead the programs of one agent to their proxy.
func (c *Cell) Variables() []string {
	if c == nil {
		return nil
	}
	const here = "localhost,127.0.0.1,::1"
	at := fmt.Sprintf("http://127.0.0.1:%d", proxyPort)
	return []string{"HTTP_PROXY=" + at, "HTTPS_PROXY=" + at, "http_proxy=" + at, "https_proxy=" + at, "NO_PROXY=" + here,
		"no_proxy=" + here, "ALL_PROXY=" + at, "all_proxy=" + at, "NODE_USE_ENV_PROXY=1"} // Node needs to be asked
}

// Spent says which limit had a program of one agent killed, "" if none did, or if that is not known.
func (c *Cell) Spent() string {
	if c == nil || c.group == nil || !c.group.exhausted() {
		return ""
	}
	return "out of memory: limit " + text.Size(c.Memory)
}

// Admit returns what programs that work in tree, a directory of workspace, may read besides their tree. Both come from
// a record that others write, so it returns an error unless tree is where its name says, in a workspace of this
// machine.
func (c *Cell) Admit(workspace, tree string) (read []string, err error) {
	if c.Lend != nil {
		if read, err = c.Lend(workspace); err != nil {
			return nil, err
		}
	}
	top, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return nil, fmt.Errorf("find workspace: %w", err)
	}
	real, err := filepath.EvalSymlinks(tree)
	if err != nil {
		return nil, fmt.Errorf("find working tree: %w", err)
	}
	if !below(top, real) {
		return nil, fmt.Errorf("working tree %s is not in its workspace %s", tree, workspace)
	}
	return append(read, workspace), nil
}

// Alone returns the command line of a program in a cell with nothing but the program and its own directories. A nil
// cell changes nothing.
func (c *Cell) Alone(own []string, path string, args []string) (string, []string) {
	if c == nil {
		return path, args
	}
	return c.Around(Given{Own: own}, path, args)
}

// Given is what a program in a cell is given. The places need not exist.
type Given struct {
	Read, Write []string
	Own         []string // empty directories for the program alone
	Gateway     string   // a socket; "": none
}

// Around returns the command line of a program in a cell.
func (c *Cell) Around(given Given, path string, args []string) (string, []string) {
	w := Sandbox{Hide: c.hidden(), Read: slices.Concat(given.Read, []string{c.installed(path)}), Write: given.Write,
		Own: given.Own}
	path, args = c.limited(path, args)
	if c.proxy != nil && len(c.Forward) > 0 {
		sockets := given.Gateway + string(filepath.ListSeparator) + c.proxy.Socket()
		args = slices.Concat(c.Forward[1:], []string{sockets, path}, args)
		path = c.Forward[0]
		w.Read = append(w.Read, path)
		for _, socket := range filepath.SplitList(sockets) {
			if socket != "" {
				w.Read = append(w.Read, filepath.Dir(socket))
			}
		}
	}
	path, args = w.Around(c.Bwrap, path, args)
	if c.group == nil {
		return path, args
	}
	return c.group.enter(path, args)
}

// Prlimit returns the path of prlimit, or "" where it is not installed.
func Prlimit() string {
	path, err := exec.LookPath("prlimit")
	if err != nil {
		return ""
	}
	return path
}

// limited returns the command line of a program under the limits that its group does not have. They are set inside the
// cell: there the kernel counts only its processes. Memory is what a process could write to at once: a limit on its
// addresses would keep programs from starting that reserve many.
func (c *Cell) limited(path string, args []string) (string, []string) {
	var limits []string
	if c.Processes > 0 && c.group == nil {
		limits = append(limits, fmt.Sprintf("--nproc=%d", c.Processes))
	}
	if c.Memory > 0 && c.group == nil {
		limits = append(limits, fmt.Sprintf("--data=%d", c.Memory))
	}
	if c.FileSize > 0 {
		limits = append(limits, fmt.Sprintf("--fsize=%d", c.FileSize))
	}
	if c.Prlimit == "" || len(limits) == 0 {
		return path, args
	}
	return c.Prlimit, slices.Concat(limits, []string{"--", path}, args)
}

// Covers reports whether a place is in a directory that is hidden, so that programs in the cell do not find it, nor can
// it be made there.
func (c *Cell) Covers(place string) bool {
	return c != nil && slices.ContainsFunc(existing(c.Hide), func(hidden string) bool {
		real, err := filepath.EvalSymlinks(place)
		return err == nil && real != hidden && below(hidden, real)
	})
}

// hidden returns the hidden places that exist, without those that are inside another one.
func (c *Cell) hidden() []string {
	all := existing(c.Hide)
	return slices.DeleteFunc(slices.Clone(all), func(place string) bool {
		return slices.ContainsFunc(all, func(other string) bool { return other != place && below(other, place) })
	})
}

// installed returns the directory that a program is installed in, since files that it needs may be next to it, or
// the program alone if that would show something hidden.
func (c *Cell) installed(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || !filepath.IsAbs(path) {
		return ""
	}
	dir := filepath.Dir(real)
	const modules = "node_modules"
	if top, _, ok := strings.Cut(real, string(filepath.Separator)+modules+string(filepath.Separator)); ok {
		dir = filepath.Join(top, modules)
	}
	if slices.ContainsFunc(existing(c.Hide), func(hidden string) bool { return below(dir, hidden) }) {
		return real
	}
	return dir
}

// checkTime limits the check from inside a cell.
const checkTime = 20 * time.Second

// look prints what a program sees but should not: processes of Plait, and the contents of hidden places.
const look = `for d in /proc/[0-9]*; do [ "$(cat $d/comm 2>/dev/null)" = "$0" ] && echo "the process $d"; done
for f; do
  if [ -d "$f" ]; then
    for e in "$f"/* "$f"/.[!.]*; do [ -e "$e" ] && echo "$e"; done
  elif [ -s "$f" ]; then
    echo "$f"
  fi
done
exit 0`

// Check checks from inside that the cell keeps its promises. The error says which one it breaks.
func (c *Cell) Check(ctx context.Context) error {
	if c.Bwrap == "" {
		return errors.New("bubblewrap (bwrap) is not installed")
	}
	own, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		return fmt.Errorf("read own process name: %w", err)
	}
	args := append([]string{"-c", look, strings.TrimSpace(string(own))}, c.hidden()...)
	path, args := c.Around(Given{}, "/bin/sh", args)
	var out, said bytes.Buffer
	res, err := Run(ctx, Config{Path: path, Args: args, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"},
		Stdout: &out, Stderr: &said, Wall: checkTime})
	switch {
	case err != nil:
		return err
	case res.Exit != 0 || res.Reason != "":
		return fmt.Errorf("cannot create namespaces: %s", strings.TrimSpace(said.String()))
	}
	for line := range strings.Lines(out.String()) {
		return fmt.Errorf("programs could see %s", strings.TrimSpace(line))
	}
	return nil
}

// below reports whether path is dir or is inside it.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
