package flow

import (
	"cmp"
	"maps"
	"slices"
)

// Fork strategies.
const (
	Parallel = "parallel" // all paths run concurrently
	Serial   = "serial"   // one after the other, in order
)

// Join strategies.
const (
	AllCompleted          = "ALL_COMPLETED"
	AnyCompleted          = "ANY_COMPLETED"
	AllFailed             = "ALL_FAILED"
	AnyFailed             = "ANY_FAILED"
	SuccessCountThreshold = "SUCCESS_COUNT_THRESHOLD"
)

// What happens to the paths that are still running when a join is decided.
const (
	CancelLosers  = "cancel"
	WaitForLosers = "wait"
	KeepFiles     = "keep" // what the paths of a join changed is merged nowhere: it stays on branches
)

// A ForkSpec is a node at which one thread splits into several paths (seed 002).
type ForkSpec struct {
	Strategy string       `json:"forkStrategy"` // Parallel or Serial
	Paths    []BranchPath `json:"forkPaths"`
	Join     string       `json:"join"` // the join with the same path ids
}

// A BranchPath is one way out of a fork: its first role, and that role's prompt. An empty prompt
// means the route's, and if that is empty too, the thread's.
type BranchPath struct {
	ID     string `json:"pathId"`
	Child  string `json:"childNodeId"`
	Prompt string `json:"prompt"`
}

// A JoinSpec is a node at which paths join into one thread (seed 002).
type JoinSpec struct {
	PathIDs   []string `json:"forkPathIds"` // the fork's, in the same order
	Strategy  string   `json:"joinStrategy"`
	Threshold int      `json:"threshold"`       // paths, only with SuccessCountThreshold
	Timeout   Duration `json:"timeout"`         // since the fork; 0: forever
	Main      string   `json:"mainPathId"`      // whose conversation continues
	Losers    string   `json:"losers"`          // CancelLosers or WaitForLosers
	Files     string   `json:"files,omitempty"` // KeepFiles, or "": they are merged
}

// Branch returns the fork that a path id belongs to, and the path. Path ids are unique in a
// definition.
func (d *Definition) Branch(path string) (fork string, p BranchPath, ok bool) {
	for _, name := range slices.Sorted(maps.Keys(d.Forks)) {
		for _, p := range d.Forks[name].Paths {
			if p.ID == path {
				return name, p, true
			}
		}
	}
	return "", BranchPath{}, false
}

// Statuses of paths, as [Resolve] reads them; a path with any other is still running.
const (
	PathCompleted = "completed"
	PathFailed    = "failed"
	PathCancelled = "cancelled"
)

// Outcomes of a join: the statuses that its node routes.
const (
	Joined   = "joined"
	NotMet   = "failed"
	TimedOut = "timeout"
)

// A PathState is the state of a path. Ended gives the order in which paths ended.
type PathState struct {
	ID     string
	Status string
	Ended  int64
}

// A Resolution is the state of a join.
type Resolution struct {
	// Outcome is Joined, NotMet or TimedOut; "" if the join is not decided yet.
	Outcome string
	// DecidedBy is the path whose end decided, "" if all paths together did.
	DecidedBy string
	// Cancel lists the paths to cancel now.
	Cancel []string
}

// Resolve decides a join by the table of design §3. Paths that ended before the join waited
// count, and a cancelled path counts as failed. It considers the ends in order, so a decision
// stays the same whatever ends later.
func Resolve(j JoinSpec, paths []PathState, timedOut bool) Resolution {
	var ended []PathState
	for _, p := range paths {
		if p.ended() {
			ended = append(ended, p)
		}
	}
	slices.SortStableFunc(ended, func(a, b PathState) int { return cmp.Compare(a.Ended, b.Ended) })
	completed, failed := 0, 0
	var r Resolution
	for _, p := range ended {
		if p.Status == PathCompleted {
			completed++
		} else {
			failed++
		}
		var needed int
		r.Outcome, needed = j.verdict(completed, failed, len(paths))
		if r.Outcome != "" {
			if needed < len(paths) {
				r.DecidedBy = p.ID
			}
			break
		}
	}
	if r.Outcome == "" && timedOut {
		r.Outcome = TimedOut
	}
	if r.Outcome != "" && (j.Losers != WaitForLosers || timedOut) {
		for _, p := range paths {
			if !p.ended() {
				r.Cancel = append(r.Cancel, p.ID)
			}
		}
	}
	return r
}

func (p PathState) ended() bool {
	return p.Status == PathCompleted || p.Status == PathFailed || p.Status == PathCancelled
}

// verdict returns the outcome of a join of n paths, or "" if it is still open, and how many paths
// with the same status decided it.
func (j JoinSpec) verdict(completed, failed, n int) (outcome string, needed int) {
	toJoin, have, toFail, against := n, completed, 1, failed
	switch j.Strategy {
	case AnyCompleted:
		toJoin, toFail = 1, n
	case AllFailed:
		have, against = failed, completed
	case AnyFailed:
		toJoin, have, toFail, against = 1, failed, n, completed
	case SuccessCountThreshold:
		toJoin, toFail = j.Threshold, n-j.Threshold+1
	}
	switch {
	case have >= toJoin:
		return Joined, toJoin
	case against >= toFail:
		return NotMet, toFail
	}
	return "", 0
}
