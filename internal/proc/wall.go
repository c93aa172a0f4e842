package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// A Wall describes what a program and its descendants can reach; bubblewrap enforces it. The rest of the
// file system is readable but not writable, other processes are invisible, and the only network is a
// private loopback.
type Wall struct {
	// They are applied in this order, so a later one overrides those above it.
	Mounts []Mount  // places that show others
	Hide   []string // directories and files that are empty
	Read   []string // what can be read nevertheless
	Tree   []string // directories that can be written
	Guard  []string // what cannot be written in them
	Write  []string // directories that can be written nevertheless
	Own    []string // empty directories for the program alone; they need not exist

	Network bool // share this machine's network
	Sealed  bool // directories in Hide cannot be written: otherwise each program can write its own empty one
}

// A Mount is what a program sees at a place.
type Mount struct {
	From  string // a directory or a file, which must exist; "" for an empty directory
	At    string
	Write bool
}

// Walls returns the path of bubblewrap, or "" where there are no walls.
func Walls() string {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return ""
	}
	return path
}

// Around returns the command line of a program behind the wall. bwrap is what [Walls] returned.
func (w Wall) Around(bwrap, path string, args []string) (string, []string) {
	line := []string{"--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--ro-bind", "/", "/",
		"--dev", "/dev", "--proc", "/proc"}
	if !w.Network {
		line = append(line, "--unshare-net")
	}
	for _, m := range w.Mounts {
		switch {
		case m.From == "":
			line = append(line, "--tmpfs", m.At)
		case m.Write:
			line = append(line, "--bind", m.From, m.At)
		default:
			line = append(line, "--ro-bind", m.From, m.At)
		}
	}
	var sealed []string
	for _, hidden := range existing(w.Hide) {
		if info, err := os.Stat(hidden); err == nil && !info.IsDir() {
			line = append(line, "--ro-bind", "/dev/null", hidden)
			continue
		}
		line = append(line, "--tmpfs", hidden)
		if w.Sealed {
			sealed = append(sealed, hidden)
		}
	}
	for _, m := range []struct {
		how    string
		places []string
	}{{"--ro-bind", w.Read}, {"--bind", w.Tree}, {"--ro-bind", w.Guard}, {"--bind", w.Write}} {
		for _, place := range existing(m.places) {
			line = append(line, m.how, place, place)
			sealed = slices.DeleteFunc(sealed, func(hidden string) bool { return hidden == place || below(place, hidden) })
		}
	}
	for _, hidden := range sealed { // once all places in it are there
		line = append(line, "--remount-ro", hidden)
	}
	for _, dir := range w.Own {
		line = append(line, "--tmpfs", dir)
	}
	return bwrap, slices.Concat(line, []string{"--", path}, args)
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
