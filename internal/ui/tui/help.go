package tui

// A keyHelp lists the keys of a pane, and what they do.
type keyHelp [][2]string

var helpEverywhere = keyHelp{
	{"↑ ↓ PgUp PgDn", "move, scroll (also k and j)"},
	{"Enter, Esc", "open, go back (also q)"},
	{"/", "find: Enter keeps what is found, Esc ends it"},
	{"?", "these keys"},
	{"Ctrl-C", "leave"},
}

var (
	helpHome = keyHelp{
		{"n", "start a new task"},
		{"t", "open the task of a question"},
		{"q", "leave"},
	}
	helpTask = keyHelp{
		{"d, p", "changes and prompt of the agent under the cursor"},
		{"t", "talk to the task"},
		{"r", "resume it, or retry it if it failed or was cancelled"},
		{"F", "fork after the newest step of the agent under the cursor"},
		{"c", "cancel it: asks first"},
		{"s", "stop it, if it runs in this terminal"},
		{"n", "start a new task"},
	}
	helpStep = keyHelp{
		{"o p f d", "output, prompt, output fields, changes"},
		{"Tab", "the next of them"},
		{"n, N", "the next and the previous line that was found"},
		{"[ ]", "the step before, the step after"},
		{"Home, End", "the first line, the last line"},
		{"F", "fork after this step"},
	}
	helpApproval = keyHelp{
		{"a", "approve, once all of it was on the screen"},
		{"d", "deny, with a reason if you like"},
	}
)

// lines renders the keys of a pane, then those that work everywhere.
func (h keyHelp) lines(width int) []string {
	out := []string{bold.Render("KEYS"), ""}
	for i, part := range []keyHelp{h, helpEverywhere} {
		if i > 0 {
			out = append(out, "")
		}
		for _, k := range part {
			out = append(out, fit("  "+pad(k[0], 16)+k[1], width))
		}
	}
	return append(out, "", dim.Render("any key closes this"))
}

// help returns the keys of the active pane.
func (s *screen) help() keyHelp {
	switch {
	case s.q != nil:
		return helpApproval
	case s.step != nil:
		return helpStep
	case s.task != nil:
		return helpTask
	}
	return helpHome
}
