package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Cell is what keeps programs that are not trusted from the rest of a machine that works for several people: a
// user, process, mount and IPC namespace of their own, which end with the process that made them, however that
// ends. Of what is hidden a program sees what it is given. It has the machine's network.
type Cell struct {
	Bwrap string   // see [Walls]
	Hide  []string // directories that are empty in it, and files
	Read  []string // what every program may read all the same
}

// Around returns the command line of a program in a cell. It can read what is in read, which need not be there, and
// write what is in write.
func (c *Cell) Around(read, write []string, path string, args []string) (string, []string) {
	w := Wall{Network: true, Hide: c.Hide, Read: slices.Concat(c.Read, read, []string{installed(path)}), Write: write}
	return w.Around(c.Bwrap, path, args)
}

// installed returns where all of a program lies: beside it may be what it needs.
func installed(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || !filepath.IsAbs(path) {
		return ""
	}
	if top, _, ok := strings.Cut(real, string(filepath.Separator)+"node_modules"+string(filepath.Separator)); ok {
		return top
	}
	return filepath.Dir(real)
}

// checkTime bounds the look from inside a cell.
const checkTime = 20 * time.Second

// look names what a program sees that it should not: more processes than its own, and entries of hidden places.
const look = `for d in /proc/[0-9]*; do [ "$(cat $d/comm 2>/dev/null)" = "$0" ] && echo "the process $d"; done
for f; do
  if [ -d "$f" ]; then
    for e in "$f"/* "$f"/.[!.]*; do [ -e "$e" ] && echo "$e"; done
  elif [ -s "$f" ]; then
    echo "$f"
  fi
done
exit 0`

// Check looks from inside whether the cell keeps what it promises. The error says what it does not.
func (c *Cell) Check(ctx context.Context) error {
	if c.Bwrap == "" {
		return errors.New("bubblewrap (bwrap) is not installed")
	}
	own, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		return fmt.Errorf("find the own name: %w", err)
	}
	args := append([]string{"-c", look, strings.TrimSpace(string(own))}, existing(c.Hide)...)
	path, args := c.Around(nil, nil, "/bin/sh", args)
	var out, said bytes.Buffer
	res, err := Run(ctx, Config{Path: path, Args: args, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, Stdout: &out, Stderr: &said,
		Wall: checkTime})
	switch {
	case err != nil:
		return err
	case res.Exit != 0 || res.Reason != "":
		return fmt.Errorf("no namespaces can be made: %s", strings.TrimSpace(said.String()))
	}
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimSpace(line); !slices.ContainsFunc(c.Read, func(lent string) bool { return within(lent, line) }) {
			return fmt.Errorf("they could see %s", line)
		}
	}
	return nil
}

// within reports whether one of two paths lies below the other.
func within(a, b string) bool {
	for _, p := range [][2]string{{a, b}, {b, a}} {
		if rel, err := filepath.Rel(p[0], p[1]); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}
