package proc

import (
	"bytes"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// An entry is one line of the process table.
type entry struct {
	pid, parent, group, session int
	state                       byte  // of its first thread
	threads                     int   // those that have not ended; the first counts until all have
	start                       int64 // clock ticks since boot
}

// isDead reports whether the process has ended and only waits to be reaped. It lives on while
// any thread but its first does.
func (e entry) isDead() bool {
	return e.threads <= 1 && (e.state == 'Z' || e.state == 'X' || e.state == 'x')
}

// table returns the process table, sorted by pid. Processes that vanish
// meanwhile are omitted.
func table() ([]entry, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	list := make([]entry, 0, len(all))
	for _, pid := range all {
		if e, ok := readEntry(pid); ok {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b entry) int { return a.pid - b.pid })
	return list, nil
}

// pids returns the ids of all processes.
func pids() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	list := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	return list, nil
}

// readEntry reads /proc/<pid>/stat in a single read: the end of a run may read those of all processes,
// and what package os does for files that grow or block takes longer than the read itself.
func readEntry(pid int) (entry, bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return entry{}, false
	}
	defer unix.Close(fd)
	var b [4096]byte // the name of a process is short, and so are 52 numbers
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return entry{}, false
	}
	return parseStat(b[:n])
}

// parseStat reads a line of the form
//
//	pid (comm) state ppid pgrp session …
//
// in which field 20 is the number of threads and field 22 the start time. The
// process chooses comm, which may contain spaces and parentheses, so the fields
// are counted from the last ')'.
func parseStat(b []byte) (entry, bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return entry{}, false
	}
	f := bytes.Fields(b[end+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return entry{}, false
	}
	e := entry{state: f[0][0]}
	for _, at := range []struct {
		to   *int
		text []byte
	}{{&e.pid, bytes.TrimSpace(b[:open])}, {&e.parent, f[1]}, {&e.group, f[2]}, {&e.session, f[3]}, {&e.threads, f[17]}} {
		n, err := strconv.Atoi(string(at.text))
		if err != nil {
			return entry{}, false
		}
		*at.to = n
	}
	start, err := strconv.ParseInt(string(f[19]), 10, 64)
	e.start = start
	return e, err == nil && e.pid > 0
}

// hasTag reports whether the initial environment of the process has the tag.
func hasTag(pid int, tag string) bool {
	if tag == "" {
		return false
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	want := []byte(TagKey + "=" + tag)
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if bytes.Equal(kv, want) {
			return true
		}
	}
	return false
}

// Identify returns the start time of a process, in clock ticks since boot. ok is
// false if there is no such process, or it has ended and is not reaped yet.
// Within one boot, pid and start identify a process: a later one with the same pid differs.
func Identify(pid int) (start int64, ok bool) {
	e, ok := readEntry(pid)
	if !ok || e.isDead() {
		return 0, false
	}
	return e.start, true
}

// signalExactly signals the process e, and never another that reused its id.
func signalExactly(e entry, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(e.pid, 0)
	if err == unix.ENOSYS || err == unix.EPERM { // old kernel, or a filter
		if now, ok := readEntry(e.pid); !ok || now.start != e.start {
			return unix.ESRCH
		}
		return unix.Kill(e.pid, sig)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if now, ok := readEntry(e.pid); !ok || now.start != e.start {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}
