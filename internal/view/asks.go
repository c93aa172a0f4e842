package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
)

// A Phrasing is a gate's request in plain words.
type Phrasing struct {
	Headline string // one sentence
	Code     string // a command or tool name that continues the sentence, "" for none
	After    string // the end of the sentence, after Code
	Body     string // the rest of the question, "" for none
	Points   []string
	Yes, No  string // what approving and denying do; "" if the buttons say so
}

// Text returns the whole sentence.
func (a Phrasing) Text() string {
	if a.Code == "" {
		return a.Headline
	}
	return a.Headline + "`" + a.Code + "`" + a.After
}

// maxAsked limits a headline, maxAskedCode the command in it, in characters.
const (
	maxAsked     = 240
	maxAskedCode = 90
)

// PhrasingOf phrases what a gate asks. It is for display only: a person approves the action itself,
// which must be shown along with it.
func PhrasingOf(g store.Gate) Phrasing {
	var act gate.Action
	var params map[string]json.RawMessage
	if len(g.Action) > 0 {
		if json.Unmarshal(g.Action, &act) == nil {
			json.Unmarshal(act.Params, &params) // params of another shape are ignored
		}
	}
	who := cmp.Or(g.Node, "An agent")
	switch {
	case g.Source == store.SourceMerge:
		return phraseMerge(g, params)
	case g.Source == store.SourceLimit:
		return phraseLimit(g, params)
	case g.Source == store.SourceInterrupted:
		return Phrasing{Headline: fmt.Sprintf("%q was interrupted and may have changed files. Run it again?", who),
			Body: "Look at what it did first: its attempt and its files are on the task's page.",
			Yes:  "it runs once more", No: "the task stays blocked"}
	case g.Source == store.SourceAgent && g.Kind == store.GateApproval:
		return phraseAction(g, act, who)
	}
	first, rest := cutQuestion(g.Question)
	if g.Source != store.SourceFlow && first != "" {
		first = who + " asks: " + first
	}
	return Phrasing{Headline: cmp.Or(first, who+" needs an answer"), Body: rest}
}

// phraseAction phrases an action that an agent wants to take.
func phraseAction(g store.Gate, act gate.Action, who string) Phrasing {
	out := Phrasing{Body: Question(g.Question)}
	code := func(before, what, after string) Phrasing {
		out.Headline, out.Code, out.After = before, text.OneLine(what, maxAskedCode), after
		return out
	}
	switch {
	case act.Type == gate.Form:
		return code("A tool of "+who+", ", act.Tool, ", asks you to fill in a form")
	case act.Command != "":
		command := withoutShell(act.Command)
		if first, _, more := strings.Cut(strings.TrimSpace(command), "\n"); more {
			return code(who+" wants to run a script that begins with ", first, "")
		}
		return code(who+" wants to run ", command, "")
	case act.Tool != "":
		return code(who+" wants to call ", act.Tool, "")
	case act.Type == gate.FileChange || act.Diff != "":
		files := patchedFiles(act.Diff)
		switch len(files) {
		case 0:
			out.Headline = who + " wants to change files"
		case 1:
			return code(who+" wants to change ", files[0], "")
		default:
			return code(who+" wants to change ", files[0], fmt.Sprintf(" and %d more", len(files)-1))
		}
		return out
	case act.Type == gate.Permissions:
		out.Headline = who + " wants more access"
		return out
	}
	first, rest := cutQuestion(g.Question)
	return Phrasing{Headline: cmp.Or(first, who+" asks for approval"), Body: rest}
}

// phraseMerge phrases a merge that a person must decide.
func phraseMerge(g store.Gate, params map[string]json.RawMessage) Phrasing {
	var sides []struct {
		Path      string
		Branch    string
		Protected []string
	}
	var conflicts, overlaps map[string][]string
	json.Unmarshal(params["sides"], &sides)
	json.Unmarshal(params["conflicts"], &conflicts)
	json.Unmarshal(params["overlaps"], &overlaps)
	out := Phrasing{Yes: "what merges is merged; what conflicts stays on its branch", No: "all of it stays on branches"}
	var names, guarded, at, between []string
	for i, s := range sides {
		names = append(names, s.Path)
		guarded = append(guarded, s.Protected...)
		if files := conflicts[s.Path]; len(files) > 0 { // with what was merged before it
			at = append(at, files...)
			for _, o := range sides[:i] {
				if len(conflicts[o.Path]) == 0 && slices.ContainsFunc(files, func(file string) bool {
					return slices.Contains(overlaps[file], o.Path)
				}) {
					between = append(between, o.Path)
				}
			}
			between = append(between, s.Path)
		}
	}
	slices.Sort(at)
	slices.Sort(guarded)
	at, guarded = slices.Compact(at), slices.Compact(guarded)
	switch {
	case len(between) > len(conflicts):
		slices.SortFunc(between, func(a, b string) int {
			return cmp.Compare(slices.Index(names, a), slices.Index(names, b))
		})
		out.Headline = fmt.Sprintf("Merge conflict in %s between %s", firstFew(at, 2),
			firstFew(slices.Compact(between), 4))
	case len(at) > 0:
		out.Headline = fmt.Sprintf("Merge conflict in %s: the changes of %s cannot be merged", firstFew(at, 2),
			firstFew(between, 4))
	case len(guarded) > 0:
		out.Headline = fmt.Sprintf("Merge changes to %s, which can run code or instruct agents?", firstFew(guarded, 2))
	case len(names) > 0:
		out.Headline = fmt.Sprintf("Merge the changes of %s?", firstFew(names, 4))
	default:
		out.Headline = "Merge the agents' changes?"
	}
	if len(sides) == 0 {
		out.Body = Question(g.Question)
	}
	for _, s := range sides {
		line := s.Path + " is on branch " + s.Branch
		if files := conflicts[s.Path]; len(files) > 0 {
			line += ", with conflicts in " + firstFew(files, 8)
		}
		if len(s.Protected) > 0 {
			line += ", and changes the protected " + firstFew(s.Protected, 8)
		}
		out.Points = append(out.Points, line+".")
	}
	for _, file := range slices.Sorted(maps.Keys(overlaps)) {
		out.Points = append(out.Points, fmt.Sprintf("%s was changed by %s.", file, firstFew(overlaps[file], 8)))
	}
	return out
}

// phraseLimit phrases a limit that a task reached.
func phraseLimit(g store.Gate, params map[string]json.RawMessage) Phrasing {
	var why, raise string
	json.Unmarshal(params["why"], &why)
	json.Unmarshal(params["raise"], &raise)
	why = strings.TrimSuffix(text.OneLine(cmp.Or(why, g.Question), maxAsked), ".")
	out := Phrasing{Headline: fmt.Sprintf("Limit reached: %s. Allow as much again?", why), // of older records
		Yes: "the limit is raised and the task continues", No: "the task stays where it is"}
	if raise = text.OneLine(raise, maxAsked); raise != "" {
		out.Headline = fmt.Sprintf("Limit reached: %s. Continue with %s?", why, raise)
		out.Yes = "the task continues with " + raise
	}
	return out
}

// Question returns a question as it is shown: a list with a single item loses its bullet.
func Question(text string) string {
	text = strings.TrimSpace(text)
	for _, mark := range []string{"- ", "* ", "+ "} {
		if item, ok := strings.CutPrefix(text, mark); ok && !strings.Contains(text, "\n"+mark) {
			return strings.TrimSpace(item)
		}
	}
	return text
}

// cutQuestion returns the first line of a question, and the rest.
func cutQuestion(s string) (first, rest string) {
	s = Question(s)
	first, rest, _ = strings.Cut(s, "\n")
	first = strings.TrimSpace(first)
	if short := text.OneLine(first, maxAsked); short != strings.Join(strings.Fields(first), " ") {
		return short, s // the headline is shortened, so the body has all of it
	}
	return strings.Join(strings.Fields(first), " "), strings.TrimSpace(rest)
}

// withoutShell returns a command without the shell that runs it: "/bin/bash -lc 'ls'" becomes "ls".
func withoutShell(command string) string {
	for _, shell := range []string{"/bin/bash -lc ", "/bin/bash -c ", "/bin/sh -c ", "bash -lc ", "bash -c ", "sh -c "} {
		if rest, ok := strings.CutPrefix(command, shell); ok && len(rest) > 2 {
			if q := rest[0]; (q == '\'' || q == '"') && rest[len(rest)-1] == q && strings.Count(rest, string(q)) == 2 {
				return rest[1 : len(rest)-1]
			}
			if !strings.ContainsAny(rest, " \t\n'\"") {
				return rest
			}
		}
	}
	return command
}

// patchedFiles returns the files of a patch, in order.
func patchedFiles(patch string) []string {
	var out []string
	for l := range strings.Lines(patch) {
		for _, mark := range []string{"+++ ", "--- "} {
			name, ok := strings.CutPrefix(strings.TrimSpace(l), mark)
			if name, _, _ = strings.Cut(name, "\t"); !ok || name == "/dev/null" || name == "" {
				continue
			}
			if rest, ok := strings.CutPrefix(name, "a/"); ok {
				name = rest
			} else if rest, ok = strings.CutPrefix(name, "b/"); ok {
				name = rest
			}
			if name = path.Clean(name); !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// firstFew names the first n of a list: "a, b and 3 more".
func firstFew(list []string, n int) string {
	switch {
	case len(list) == 1:
		return list[0]
	case len(list) > n:
		return fmt.Sprintf("%s and %d more", strings.Join(list[:n], ", "), len(list)-n)
	case len(list) > 1:
		return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
	}
	return ""
}
