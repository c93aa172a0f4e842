package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Groups is the part of the system's control groups, version 2, that this process may divide among programs; see
// cgroups(7). Each program's share is a group of its own below it.
type Groups struct{ dir string }

// A group is one share. Its limits are those of dir; the programs are in a group below dir, where they are at the top
// of what they can see, so they cannot change the limits even where they can mount control groups.
type group struct{ dir string }

const (
	inside = "programs" // of a group's directory: what is limited
	apart  = "worker"   // of the directory of Groups: this process, since only leaves may have any
)

// Delegated returns the control groups that this process may divide: those that it is in, if they belong to its user,
// as with Delegate= of systemd. It moves this process, and all others of its group, into one below. The error says
// why there are none; what bounds programs then is [Prlimit].
func Delegated() (*Groups, error) {
	const top = "/sys/fs/cgroup"
	var found unix.Statfs_t
	if err := unix.Statfs(top, &found); err != nil || found.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil, errors.New("this system has no control groups of version 2")
	}
	list, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	own, is := strings.CutPrefix(strings.TrimSpace(string(list)), "0::")
	if !is || strings.Contains(own, "\n") {
		return nil, errors.New("this system has control groups of both versions")
	}
	return divide(filepath.Join(top, own), "memory", "pids")
}

// divide makes the group in dir one that can be divided, with some controllers.
func divide(dir string, controllers ...string) (*Groups, error) {
	list, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	for _, name := range controllers {
		if !slices.Contains(strings.Fields(string(list)), name) {
			return nil, fmt.Errorf("control group %s has no controller %s", dir, name)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, apart), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("control group of another user: %w", err)
	}
	list, err = os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	for _, pid := range strings.Fields(string(list)) {
		err := set(filepath.Join(dir, apart), "cgroup.procs", pid)
		if err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
			return nil, err
		}
	}
	if len(controllers) > 0 {
		if err := set(dir, "cgroup.subtree_control", "+"+strings.Join(controllers, " +")); err != nil {
			return nil, err
		}
	}
	return &Groups{dir}, nil
}

// set writes a setting of a control group.
func set(dir, name, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// group makes a share. Zero is no limit.
func (g *Groups) group(memory int64, processes int) (*group, error) {
	dir, err := os.MkdirTemp(g.dir, "agent-")
	if err != nil {
		return nil, err
	}
	made := &group{dir}
	err = os.Mkdir(filepath.Join(dir, inside), 0o755)
	if err == nil {
		err = set(dir, "cgroup.max.descendants", "1") // programs can make none
	}
	if memory > 0 {
		err = errors.Join(err, set(dir, "memory.max", strconv.FormatInt(memory, 10)))
		if swap := set(dir, "memory.swap.max", "0"); !errors.Is(swap, fs.ErrNotExist) { // not all kernels count it
			err = errors.Join(err, swap)
		}
	}
	if processes > 0 {
		err = errors.Join(err, set(dir, "pids.max", strconv.Itoa(processes)))
	}
	if err != nil {
		return nil, errors.Join(err, made.close())
	}
	return made, nil
}

// enter returns the command line of a program that begins in the group.
func (g *group) enter(path string, args []string) (string, []string) {
	procs := filepath.Join(g.dir, inside, "cgroup.procs")
	return "/bin/sh", slices.Concat([]string{"-c", `echo 0 >"$0" && exec "$@"`, procs, path}, args)
}

// exhausted reports whether a program was killed because the group used all of its memory.
func (g *group) exhausted() bool {
	events, err := os.ReadFile(filepath.Join(g.dir, "memory.events"))
	if err != nil {
		return false
	}
	counts := map[string]string{}
	for line := range strings.Lines(string(events)) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		counts[name] = count
	}
	own := counts["oom"] != "0" // otherwise a group above had none left
	return own && counts["oom_kill"] != "0" && counts["oom_kill"] != ""
}

// close kills what is left in the group, and removes it.
func (g *group) close() error {
	if err := set(g.dir, "cgroup.kill", "1"); err != nil && !errors.Is(err, fs.ErrNotExist) { // Linux before 5.14
		return err
	}
	var err error
	for _, dir := range []string{filepath.Join(g.dir, inside), g.dir} {
		for until := time.Now().Add(killWait); ; time.Sleep(10 * time.Millisecond) { // until they have ended
			err = unix.Rmdir(dir)
			if !errors.Is(err, unix.EBUSY) || time.Now().After(until) {
				break
			}
		}
	}
	if err != nil {
		return fmt.Errorf("remove control group %s: %w", g.dir, err)
	}
	return nil
}
