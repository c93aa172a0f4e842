package flow

import (
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/sys/text"
)

// Statuses of a step in which the command of [Role.Until] ran.
const (
	Met   = "succeeded"
	Unmet = "failed"
)

// UntilRole returns the role whose steps are runs of the command that a role goes on until. Its name is reserved, so
// routing, results and calls see only the steps of the role itself.
func UntilRole(role string) string { return untilPrefix + role + "__" }

const untilPrefix = "__until_"

// UntilOf returns the role whose command runs in the steps of a role with the given name.
func UntilOf(name string) (role string, ok bool) {
	if !IsReserved(name) {
		return "", false
	}
	role, ok = strings.CutPrefix(name, untilPrefix)
	return strings.TrimSuffix(role, "__"), ok
}

// Role returns a role of the flow, or one that is derived from it: see [UntilRole]. The latter has the agent and the
// access of the role it is derived from, for the sandbox. Running a command again does no harm.
func (d *Definition) Role(name string) (Role, bool) {
	of, derived := UntilOf(name)
	if !derived {
		role, ok := d.Roles[name]
		return role, ok
	}
	role, ok := d.Roles[of]
	again := true
	return Role{Description: "Runs " + strings.Join(role.Until, " "), Agent: role.Agent,
		Access:  role.Access,
		Sandbox: role.Sandbox, Timeout: role.Timeout, Until: role.Until,
		Retry: Retry{Max: role.Retry.Max, Interrupted: &again}}, ok && role.Until != nil
}

// GoesOn reports whether the last routed step of last is not its role's last word: it waits for a person, or the
// command that the role goes on until has not succeeded since.
func (d *Definition) GoesOn(last []Step) bool {
	s := d.sortSteps(last)
	switch {
	case s.step == nil:
		return false
	case s.step.Meta["$status"] == Suspend:
		return true
	}
	return d.Roles[s.step.Role].Until != nil && !s.met()
}

// Ran returns the last run in last of the command that a role goes on until, which the role's next step follows; none
// if there is no such run.
func (d *Definition) Ran(last []Step, role string) []Step {
	if s := d.sortSteps(last); s.ran != nil && s.ran.Role == UntilRole(role) {
		return []Step{*s.ran}
	}
	return nil
}

// met reports whether the command has succeeded since the step.
func (s *sorted) met() bool { return s.ran != nil && s.ran.Meta["$status"] == Met }

// untilMet decides what follows a step whose role goes on until a command succeeds. It returns nil once that has.
func (d *Definition) untilMet(s sorted) Decision {
	command := strings.Join(d.Roles[s.step.Role].Until, " ")
	switch {
	case s.ran == nil:
		return Run{Role: UntilRole(s.step.Role), Prompt: fmt.Sprintf("Run %s: %s goes on until it succeeds.", command,
			s.step.Role)}
	case s.met():
		return nil
	case len(s.inputs) == 0 && s.ranBefore != nil && sameFailure(*s.ranBefore, *s.ran):
		return Gate{Node: s.step.Role, Kind: GateInput, Input: true, Question: fmt.Sprintf(
			"%s failed again, and nothing has changed since it last did. What should %s do?\n\n%s", command, s.step.Role,
			endOf(s.ran.Body))}
	}
	prompt := fmt.Sprintf("Your work is not done: %s failed%s. It is run again after your next answer.\n\n%s", command,
		exitOf(*s.ran), endOf(s.ran.Body))
	return d.toRole(s.step.Role, joinParagraphs(prompt, s.inputs...), "")
}

// sameFailure reports whether a command failed twice with one exit code on one tree. Where the tree is not known, what
// it printed counts.
func sameFailure(a, b Step) bool {
	if b.Meta["$status"] == Met || a.Meta["$status"] == Met || exitOf(a) != exitOf(b) {
		return false
	}
	tree, known := b.Meta["tree"].(string)
	if !known {
		return a.Body == b.Body
	}
	return a.Meta["tree"] == tree
}

func exitOf(s Step) string {
	if code := s.Meta["exitCode"]; code != nil {
		return fmt.Sprintf(" (exit code %v)", code)
	}
	return ""
}

// endOf quotes the end of what a command printed.
func endOf(output string) string {
	output = strings.TrimRight(output, " \t\r\n")
	if output == "" {
		return "It printed nothing."
	}
	return "What it printed last:\n\n" + text.CodeBlock(text.Tail(output, maxSaid), "")
}
