package proc

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// markBit is set in every mark and in no limit that a person would set.
const markBit = 1 << 62

// marks are the resource limits that can carry a mark. The kernel has not enforced the
// first since 2.4; the second limits real-time scheduling, and a mark is so large that it
// is effectively unlimited. There are two, so that Plait can run inside Plait.
var marks = [...]int{unix.RLIMIT_LOCKS, unix.RLIMIT_RTTIME}

// markOf returns the mark of a tag.
func markOf(tag string) uint64 {
	sum := sha256.Sum256([]byte("plait mark " + tag))
	return binary.BigEndian.Uint64(sum[:])>>2 | markBit
}

// putMark marks a process. Where a sandbox forbids it, it does nothing; the run is then
// recognized by tag, session and parent alone.
func putMark(pid int, mark uint64) {
	for _, res := range marks {
		var old unix.Rlimit
		if unix.Prlimit(pid, res, nil, &old) != nil {
			continue
		}
		if old.Max != unix.RLIM_INFINITY && old.Max&markBit != 0 {
			continue // the mark of a run that contains us
		}
		if unix.Prlimit(pid, res, &unix.Rlimit{Cur: mark, Max: mark}, nil) == nil {
			return
		}
	}
}

// hasMark reports whether the process has the mark. The limits of a dead process
// can be read until it is reaped. Only the hard limit counts: any process may
// change the soft one.
func hasMark(pid int, mark uint64) bool {
	for _, res := range marks {
		var lim unix.Rlimit
		if unix.Prlimit(pid, res, nil, &lim) == nil && lim.Max == mark {
			return true
		}
	}
	return false
}

// Marked reports whether this process was started by a Run, or descends from one that was.
func Marked() bool {
	for _, res := range marks {
		var lim unix.Rlimit
		if unix.Getrlimit(res, &lim) == nil && lim.Max != unix.RLIM_INFINITY && lim.Max&markBit != 0 {
			return true
		}
	}
	return false
}

// MarkedBy reports whether this process belongs to the run with the tag. A process that
// has lowered its own limits is not recognized.
func MarkedBy(tag string) bool { return hasMark(os.Getpid(), markOf(tag)) }

// descendants is what is known about the processes of a run. It is owned by one goroutine.
type descendants struct {
	leader int // 0 for a sweep
	start  int64
	tag    string
	mark   uint64
	seen   map[int]int64 // pid and start of every process found so far
}

func newDescendants(leader int, tag string, mark uint64) *descendants {
	k := &descendants{leader: leader, tag: tag, mark: mark, seen: make(map[int]int64)}
	if e, ok := readEntry(leader); ok {
		k.start = e.start
	}
	return k
}

// find returns the run's processes, including the leader and dead ones.
func (k *descendants) find() []entry {
	if k.onlyLeader() {
		return nil
	}
	all, err := table()
	if err != nil {
		return nil
	}
	self := os.Getpid()
	ours := make(map[int]bool)
	var found []entry
	add := func(e entry) {
		ours[e.pid] = true
		k.seen[e.pid] = e.start
		found = append(found, e)
	}
	rest := all[:0]
	for _, e := range all {
		switch {
		case e.pid == self || e.pid == 1 || e.start < k.start:
		case k.leader != 0 && (e.pid == k.leader || e.session == k.leader || e.group == k.leader),
			k.wasSeen(e), hasMark(e.pid, k.mark), hasTag(e.pid, k.tag):
			add(e)
		default:
			rest = append(rest, e)
		}
	}
	// A child of one of ours is ours, and so is every process in a session that one
	// of ours leads. Pids wrap, so one pass in pid order is not enough.
	for n := -1; n != len(found); {
		n = len(found)
		for _, e := range rest {
			if !ours[e.pid] && (ours[e.parent] || ours[e.session]) {
				add(e)
			}
		}
	}
	return found
}

// onlyLeader reports whether no process is left but a leader that has ended, without
// reading the process table. A dead process has no children, so what it left behind is in
// its session or group, or has its mark, or is a child of such a process and is found with
// it. In doubt onlyLeader is false and the table is read, which costs a hundred times as
// much; most runs leave nothing behind.
func (k *descendants) onlyLeader() bool {
	if k.leader == 0 || k.tag != "" {
		return false // reading the tag from the environments is no cheaper
	}
	if leader, ok := readEntry(k.leader); !ok || !leader.isDead() {
		return false
	}
	for pid := range k.seen {
		if pid != k.leader {
			return false
		}
	}
	pids, err := pids()
	if err != nil {
		return false
	}
	for _, pid := range pids {
		if pid == k.leader {
			continue
		}
		session, err := unix.Getsid(pid)
		if err == unix.ESRCH {
			continue
		}
		group, groupErr := unix.Getpgid(pid)
		if groupErr == unix.ESRCH {
			continue
		}
		if err != nil || groupErr != nil || session == k.leader || group == k.leader || hasMark(pid, k.mark) {
			return false
		}
	}
	return true
}

func (k *descendants) wasSeen(e entry) bool {
	start, ok := k.seen[e.pid]
	return ok && start == e.start
}

// signal signals the leader's group. The leader is not reaped yet, so its process and
// group ids cannot have been reused. A stopped process would not react, hence SIGCONT.
func (k *descendants) signal(sig unix.Signal) {
	unix.Kill(-k.leader, sig)
	if group, err := unix.Getpgid(k.leader); err == nil && group != k.leader {
		unix.Kill(k.leader, sig)
	}
	if sig != unix.SIGKILL {
		unix.Kill(-k.leader, unix.SIGCONT)
	}
}

// end ends every process of the run except the leader, which has ended or cannot be ended.
// It gives them wait to end, then sends SIGTERM and, after grace, SIGKILL. It stops when
// two searches in a row find none alive: a process that forks during a search may be
// missed once. It reaps those whose parent we became, and returns how many were signaled
// and ended, and which are left.
func (k *descendants) end(wait, grace time.Duration) (swept int, left []int) {
	begin := time.Now()
	sent := make(map[int]unix.Signal)
	clean, pause := 0, 2*time.Millisecond
	for {
		alive := k.alive()
		if len(alive) == 0 {
			clean++
			if clean == 2 {
				return len(sent), nil
			}
			continue
		}
		clean = 0
		past := time.Since(begin)
		sig := unix.Signal(0)
		switch {
		case past >= wait+grace:
			sig = unix.SIGKILL
		case past >= wait:
			sig = unix.SIGTERM
		}
		stuck := 0
		for _, e := range alive {
			if sig == 0 || sent[e.pid] == sig && sig == unix.SIGTERM {
				continue
			}
			sent[e.pid] = sig
			if err := signalExactly(e, sig); err == unix.EPERM {
				stuck++
			}
			if sig == unix.SIGTERM {
				signalExactly(e, unix.SIGCONT)
			}
		}
		if stuck == len(alive) || past >= wait+grace+killWait {
			for _, e := range alive {
				left = append(left, e.pid)
			}
			return len(sent) - len(left), left
		}
		time.Sleep(pause)
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// alive returns the run's processes that are alive, without the leader, and
// reaps the dead ones that are our children. Each is waited for by its own id:
// waiting for any child would steal the status of children that are not the run's.
func (k *descendants) alive() []entry {
	self := os.Getpid()
	var alive []entry
	for _, e := range k.find() {
		switch {
		case e.pid == k.leader && e.start == k.start:
		case !e.isDead():
			alive = append(alive, e)
		case e.parent == self:
			unix.Wait4(e.pid, nil, unix.WNOHANG, nil)
		}
	}
	return alive
}
