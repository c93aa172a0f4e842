package evidence

import (
	"fmt"
	"regexp"
)

// An entry of evidence has an id that is unique in its instance, and everywhere with the instance's name before it:
// INSTANCE.ID, see thread.FullID. An agent chooses the ids of what it submits. What is observed of it is numbered:
//
//	KIND [ -VISIT [ -TRY ] ] -N        cmd-1   change-2   tool-2-1   cmd-1-2-1
//
// KIND is cmd, change or tool. N counts from 1 within one turn of the instance. The turn is left out if it is the
// first, has one number when the role comes again, and two when the step is tried again. So an id that an agent was
// told keeps its meaning, whatever is tried again.
//
// Agents count differently: all that they remember of a turn is their first command, whichever turn of ours that
// was. See number.
var numbered = regexp.MustCompile(`^(cmd|change|tool)(-[0-9]+)+$`)

// A Turn is the part of an id that tells the turns of an instance apart: "" for the first.
type Turn string

// TurnOf returns the turn of a try at a visit, both counted from 1.
func TurnOf(visit, try int) Turn {
	switch {
	case try > 1:
		return Turn(fmt.Sprintf("-%d-%d", visit, try))
	case visit > 1:
		return Turn(fmt.Sprintf("-%d", visit))
	}
	return ""
}

// Announce tells an agent the ids of its commands, "" in its first turn.
func (t Turn) Announce() string {
	if t == "" {
		return ""
	}
	return fmt.Sprintf("Commands that you run in this turn are kept as evidence %s-1, %[1]s-2, …; "+
		"those of your turns before keep their ids.", "cmd"+string(t))
}

// An occurrence is what is numbered: something of a kind, in a turn.
type occurrence struct {
	kind string
	turn Turn
}

// number returns the ids of what happened in the turns of a step, in that order. last is the turn that answers, cited
// are the ids that its answer cites, and used reports whether an earlier step has an id.
//
// Each gets the next free id of its turn, with one exception: an agent that does not know its turn counts from the
// start of the last one or, for what is not in that, of an earlier one. If it cites KIND-N so counted, and that id is
// free, the Nth of a turn gets it.
func number(all []occurrence, last Turn, cited map[string]bool, used func(id string) bool) []string {
	inLast := map[string]int{} // by kind
	for _, o := range all {
		if o.turn == last {
			inLast[o.kind]++
		}
	}
	given, taken := map[occurrence]int{}, map[string]bool{}
	free := func(id string) bool { return !taken[id] && !used(id) }
	next := func(o occurrence) string {
		for {
			given[o]++
			n := given[o]
			id, counted := fmt.Sprintf("%s%s-%d", o.kind, o.turn, n), fmt.Sprintf("%s-%d", o.kind, n)
			if (o.turn == last || n > inLast[o.kind]) && cited[counted] && free(counted) {
				id = counted
			}
			if free(id) {
				return id
			}
		}
	}
	ids := make([]string, len(all))
	for i, o := range all {
		ids[i] = next(o)
		taken[ids[i]] = true
	}
	return ids
}
