package view

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
)

// LastActivity returns what each instance did last. newest are events, newest first.
func LastActivity(newest []store.Event) map[string]string {
	out := map[string]string{}
	for _, ev := range newest {
		if out[ev.Instance] != "" {
			continue
		}
		_, items := Items(ev)
		for _, it := range slices.Backward(items) {
			if text := Describe(it); text != "" {
				out[ev.Instance] = text
				break
			}
		}
	}
	return out
}

// Describe describes one thing that an agent did, or returns "" if it is not worth mentioning: the
// beginning of a text, or a program that is the agent itself.
func Describe(it agent.Event) string {
	line := onOneLine(it)
	if line == "---" {
		return "" // the delimiter of front matter
	}
	switch it.Kind {
	case agent.EventMessage, agent.EventThought, agent.EventPlan:
		if it.Phase == "started" || it.Phase == "updated" && it.Kind != agent.EventPlan {
			return ""
		}
		if it.Kind == agent.EventMessage && (strings.HasPrefix(line, "{") ||
			strings.HasPrefix(strings.TrimSpace(it.Text), "---")) {
			return "" // the answer: its result is reported as the step
		}
		return line
	case agent.EventCommand:
		switch {
		case it.ID == "" || it.Phase == "updated":
			return ""
		case it.Phase == "started":
			return "$ " + line
		case it.Exit != nil && *it.Exit != 0:
			return fmt.Sprintf("✗ exit %d: %s", *it.Exit, line)
		case it.Phase == "failed" || it.Phase == "declined":
			return "✗ " + it.Phase + ": " + line
		}
		return ""
	case agent.EventFile:
		var names []string
		for _, f := range it.Files {
			names = append(names, f.Change+" "+f.Path)
		}
		list := text.FirstLine(strings.Join(names, ", "), 160)
		switch it.Phase {
		case "completed":
			return "± " + list
		case "failed", "declined":
			return "✗ " + it.Phase + ": " + list
		}
		return ""
	case agent.EventTool:
		switch it.Phase {
		case "started":
			return "→ " + line
		case "failed", "declined":
			return "✗ " + it.Phase + ": " + line
		}
		return ""
	case agent.EventError:
		if it.WillRetry {
			return "! " + line + " (tries again)"
		}
		return "! " + line
	}
	return line
}

// shellWrapper is how agents start the shell that runs a command.
var shellWrapper = regexp.MustCompile(`^(?:/usr)?(?:/bin/)?(?:ba|z|da)?sh -l?c `)

// onOneLine returns an item on one line: a command without the shell that runs it, a heading
// without its Markdown.
func onOneLine(it agent.Event) string {
	if it.Kind == agent.EventCommand {
		command := it.Text
		if at := shellWrapper.FindStringIndex(command); at != nil {
			command = command[at[1]:]
			if n := len(command); n > 1 && command[0] == command[n-1] && strings.ContainsRune(`'"`, rune(command[0])) {
				command = strings.ReplaceAll(command[1:n-1], `'\''`, `'`)
			}
		}
		return text.FirstLine(command, 120)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(it.Text), "\n")
	if heading, ok := strings.CutPrefix(first, "**"); ok && strings.HasSuffix(heading, "**") {
		return text.FirstLine(strings.TrimSuffix(heading, "**"), 120)
	}
	if it.Kind == agent.EventMessage || it.Kind == agent.EventThought {
		return text.FirstLine(strings.ReplaceAll(it.Text, "**", ""), 120)
	}
	return text.FirstLine(it.Text, 120)
}
