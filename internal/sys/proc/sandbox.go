package proc

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Sandbox describes what a program and its descendants can reach; bubblewrap enforces it. The rest of the
// file system is readable but not writable, other processes are invisible, and the only network is a
// private loopback.
type Sandbox struct {
	Mounts []Mount // places that show others; applied first

	// Each place stands for everything below it, except for deeper places that are listed too. If a place is in several
	// of these lists, the last one wins.
	Hide  []string // directories and files that are empty
	Read  []string // what can be read
	Tree  []string // directories that can be written
	Guard []string // what cannot be written in them
	Write []string // directories that can be written

	Own []string // empty directories for the program alone; they need not exist; applied last

	Network bool // share this machine's network
	Sealed  bool // directories in Hide cannot be written: otherwise each program can write its own empty one
}

// A Mount is what a program sees at a place.
type Mount struct {
	From  string // a directory or a file, which must exist; "" for an empty directory
	At    string
	Write bool
}

// Bubblewrap returns the path of bubblewrap, or "" where there are no sandboxes.
func Bubblewrap() string {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return ""
	}
	return path
}

// Around returns the command line of a program in the sandbox. bwrap is what [Bubblewrap] returned.
func (s Sandbox) Around(bwrap, path string, args []string) (string, []string) {
	line := []string{"--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--ro-bind", "/", "/",
		"--dev", "/dev", "--proc", "/proc"}
	if !s.Network {
		line = append(line, "--unshare-net")
	}
	for _, m := range s.Mounts {
		switch {
		case m.From == "":
			line = append(line, "--tmpfs", m.At)
		case m.Write:
			line = append(line, "--bind", m.From, m.At)
		default:
			line = append(line, "--ro-bind", m.From, m.At)
		}
	}
	for _, r := range s.rules() {
		line = append(line, r.line...)
	}
	for _, hidden := range s.sealed() { // once all places in it are there
		line = append(line, "--remount-ro", hidden)
	}
	for _, dir := range s.Own {
		line = append(line, "--tmpfs", dir)
	}
	return bwrap, slices.Concat(line, []string{"--", path}, args)
}

// A rule mounts a place.
type rule struct {
	place string
	line  []string // arguments of bubblewrap
}

// rules returns the rules for the places of the sandbox, parents first.
func (s Sandbox) rules() (all []rule) {
	for _, hidden := range existing(s.Hide) {
		line := []string{"--tmpfs", hidden}
		if !isDir(hidden) {
			line = []string{"--ro-bind", "/dev/null", hidden}
		}
		all = append(all, rule{hidden, line})
	}
	for _, m := range []struct {
		how    string
		places []string
	}{{"--ro-bind", s.Read}, {"--bind", s.Tree}, {"--ro-bind", s.Guard}, {"--bind", s.Write}} {
		for _, place := range existing(m.places) {
			all = append(all, rule{place, []string{m.how, place, place}})
		}
	}
	depth := func(r rule) int { return strings.Count(strings.TrimRight(r.place, "/"), "/") }
	slices.SortStableFunc(all, func(a, b rule) int { return cmp.Compare(depth(a), depth(b)) })
	return all
}

// sealed returns the hidden directories in which nothing can be written.
func (s Sandbox) sealed() []string {
	if !s.Sealed {
		return nil
	}
	shown := existing(slices.Concat(s.Read, s.Tree, s.Guard, s.Write))
	return slices.DeleteFunc(existing(s.Hide), func(hidden string) bool {
		return !isDir(hidden) || slices.Contains(shown, hidden)
	})
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// existing returns the places that exist, by their real names: links are followed in the source
// of a mount, but not in its target.
func existing(places []string) []string {
	var out []string
	for _, p := range places {
		if real, err := filepath.EvalSymlinks(p); err == nil && p != "" && !slices.Contains(out, real) {
			out = append(out, real)
		}
	}
	return out
}
