package scripted

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A running is what a conversation says about commands that still run. Codex answers after ten seconds that a command
// does, and a model asks again until it has ended: on a busy machine any command can take that long. Where a scenario
// sets a command's yield time, it also says what happens then.
type running struct {
	waits map[string]bool // calls of commands that the model waits for
	left  map[int]int     // by output: the session of such a command
	asked int             // how often the model has asked
}

// began notes a call.
func (r *running) began(m message) {
	var args struct {
		Yield *int `json:"yield_time_ms"`
	}
	if m.Name != "exec_command" || json.Unmarshal([]byte(m.Arguments), &args) != nil || args.Yield != nil {
		return
	}
	if r.waits == nil {
		r.waits = map[string]bool{}
	}
	r.waits[m.CallID] = true
}

// note notes the output of a call.
func (r *running) note(call, output string, at int) {
	if n := session(output); n > 0 && r.waits[call] {
		if r.left == nil {
			r.left = map[int]int{}
		}
		r.left[at] = n
	}
}

// ended reports whether an output is of a call that only waited. What it says is added to the output of the command.
func (r *running) ended(call, output string, outputs []string) bool {
	var at, asked int
	if n, _ := fmt.Sscanf(call, waitCall, &at, &asked); n != 2 {
		return false
	}
	r.asked++
	if r.left[at] == 0 { // a person has said more since
		return true
	}
	outputs[at] = strings.TrimSpace(outputs[at] + "\n" + toolText(output))
	if r.left[at] = session(output); r.left[at] == 0 {
		delete(r.left, at)
	}
	return true
}

const waitCall = "call_wait_%d_%d"

// ask calls for the outputs of commands that still run, and reports whether there are any.
func (r *running) ask(s dialect) bool {
	if len(r.left) == 0 {
		return false
	}
	s.begin(usage{})
	for _, at := range slices.Sorted(maps.Keys(r.left)) {
		waitFor(s, r.left[at], fmt.Sprintf(waitCall, at, r.asked))
	}
	s.completed(usage{})
	return true
}

// maxWait is the longest time, in ms, that Codex waits for a running command.
const maxWait = 300_000

// waitFor calls for the output of a running command.
func waitFor(s dialect, session int, callID string) {
	s.call("", "write_stdin", object{"session_id": session, "chars": "", "yield_time_ms": maxWait}, callID)
}

var runs = regexp.MustCompile(`(?m)^Process running with session ID ([0-9]{1,9})$`)

// session returns the session of a command that still runs, or 0.
func session(output string) int {
	head, _, _ := strings.Cut(output, "\nOutput:\n")
	if m := runs.FindStringSubmatch(head); m != nil {
		n, _ := strconv.Atoi(m[1]) // nine digits always parse as a number
		return n
	}
	return 0
}
