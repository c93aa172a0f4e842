package thread

import (
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
)

// Previous returns the node that a step follows: its parent, or the start of its chain.
func (s *State) Previous() dag.Hash {
	if len(s.Ancestors) > 0 {
		return s.Ancestors[0]
	}
	return s.Start
}

// MainPath returns the index in s.Paths of the path whose conversation a join continues, or -1 if s
// is not a join or follows the fork point itself.
func (s *State) MainPath() int {
	if len(s.Ancestors) == 0 || s.Ancestors[0] == s.Fork {
		return -1
	}
	for i, p := range s.Paths {
		if p.Head == s.Ancestors[0] {
			return i
		}
	}
	return -1
}

// StepPaths returns, for each of steps (oldest first), the path that it belongs to: the path's id,
// prefixed with those of enclosing joined paths ("api/left"). It is "" for a step on no path, or
// on own, the path of the thread whose chain it is. For steps that do not record their path, only
// joined paths are known.
func StepPaths(steps []Step, own string) []string {
	type span struct {
		id   string
		fork dag.Hash
	}
	var open []span // outermost first
	via := make([]string, len(steps))
	for i := len(steps) - 1; i >= 0; i-- {
		s := steps[i]
		for len(open) > 0 && open[len(open)-1].fork == s.Hash {
			open = open[:len(open)-1]
		}
		ids := make([]string, len(open))
		for j, o := range open {
			ids[j] = o.id
		}
		if via[i] = strings.Join(ids, "/"); via[i] == "" && s.State.Path.ID != own {
			via[i] = s.State.Path.ID
		}
		if main := s.State.MainPath(); main >= 0 {
			open = append(open, span{s.State.Paths[main].ID, s.State.Fork})
		}
	}
	return via
}
