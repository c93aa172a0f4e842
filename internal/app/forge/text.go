package forge

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/plait-run/plait/internal/app/attest"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/sys/text"
)

// Trailers of commits.
const (
	trailerTask = "Plait-Task"
	trailerStep = "Plait-Step"
)

// A Report is what is said of a change.
type Report struct {
	Title   string
	Summary string // the result of the task
	Task    string
	Short   string // what people type for the task
	Issue   string // the address of the issue that it is about, or ""
	Change  attest.Change
	Commit  string // that has the change, "" before it is made
	Tree    string // the git tree of that commit, or else the one that the task left
	Step    dag.Hash
	Cost    string // in words, or ""
	Proof   string // SHA-256 of a bundle that proves the change, or ""
}

// Branch names the branch of a task.
func Branch(short, title string) string {
	words := strings.FieldsFunc(strings.ToLower(text.FirstLine(title, 200)), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	name := strings.ToLower(short)
	for _, w := range words {
		if len(name)+len(w) > 48 {
			break
		}
		name += "-" + w
	}
	return "plait/" + name
}

// Title is the title of a request.
func Title(r Report) string { return inert(text.FirstLine(r.Title, 200)) }

// Message is the message of a commit.
func Message(r Report) string {
	var b strings.Builder
	b.WriteString(inert(text.FirstLine(r.Title, 72)) + "\n\n")
	if s := strings.TrimSpace(text.Safe(r.Summary)); s != "" {
		b.WriteString(inert(text.Clip(s, 4<<10)) + "\n\n")
	}
	fmt.Fprintf(&b, "%s: %s\n%s: %s\n", trailerTask, r.Task, trailerStep, r.Step)
	for _, a := range agents(r.Change) {
		fmt.Fprintf(&b, "Assisted-by: %s\n", a)
	}
	return b.String()
}

// agents names the agents of a change, and their models.
func agents(c attest.Change) (all []string) {
	seen := map[string]bool{}
	for _, s := range c.Steps {
		if s.Agent == nil {
			continue
		}
		name := s.Agent.Name
		if s.Agent.Model != "" {
			name += " (" + s.Agent.Model + ")"
		}
		if name = text.FirstLine(name, 100); !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	return all
}

// Trailers returns the task and the step whose files a commit has, "" if it is not one of Plait's.
func Trailers(message string) (task, step string) {
	block := message[strings.LastIndex(strings.TrimRight(message, "\n"), "\n\n")+1:]
	for line := range strings.Lines(block) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case trailerTask:
			task = value
		case trailerStep:
			step = value
		}
	}
	return task, step
}

// Body is the body of a request. Its mark has a digest, from which [Edited] knows it again.
func Body(r Report) string {
	said := body(r)
	return mark("request", r.Task+" "+digest(Title(r), said)) + "\n" + said
}

// Edited reports whether somebody changed the title or the body of a request since Plait wrote them.
func Edited(r Request) bool {
	first, said, _ := strings.Cut(r.Body, "\n")
	return !strings.HasSuffix(strings.TrimSpace(first), " "+digest(r.Title, said)+" -->")
}

// digest is the same for a text that a forge has stored in its own way.
func digest(title, body string) string {
	clean := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r", "")) }
	return dag.Sum([]byte(clean(title) + "\n" + clean(body))).Short()
}

func body(r Report) string {
	var b strings.Builder
	if s := strings.TrimSpace(text.Safe(r.Summary)); s != "" {
		b.WriteString(inert(text.Clip(s, 32<<10)) + "\n\n")
	}
	if r.Issue != "" {
		fmt.Fprintf(&b, "Closes %s\n\n", r.Issue)
	}
	b.WriteString("### Checked on exactly these files\n\n")
	if r.Commit != "" { // replies to comments name later ones
		fmt.Fprintf(&b, "The files of %s:\n\n", r.Commit)
	}
	ran := 0
	for _, s := range r.Change.Steps {
		for _, e := range s.Evidence {
			if e.Tree == r.Tree && r.Tree != "" {
				ran++
				fmt.Fprintf(&b, "- %s exited with %d\n", code(e.Command), e.Exit)
			}
		}
	}
	if ran == 0 {
		b.WriteString("No command ran on them.\n")
	}
	b.WriteString("\n### Steps\n\n| step | role | agent | sandbox |\n|---|---|---|---|\n")
	for i, s := range r.Change.Steps {
		if s.Agent == nil {
			continue
		}
		agent := s.Agent.Name
		if s.Agent.Model != "" {
			agent += ", " + s.Agent.Model
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", i+1, cell(s.Role), cell(agent), cell(s.Sandbox))
	}
	for _, u := range r.Change.NotKnown {
		fmt.Fprintf(&b, "\nNot known: %s (%s)\n", u.What, text.Count(len(u.Steps), "step"))
	}
	if r.Cost != "" {
		fmt.Fprintf(&b, "\nCost: %s\n", r.Cost)
	}
	fmt.Fprintf(&b, "\n### How to verify\n\nTask `%s`, step `%s`.\n", r.Task, r.Step)
	if r.Proof != "" {
		fmt.Fprintf(&b, "The proof has the SHA-256 `%s`; check it with `plait verify FILE --policy POLICY`.\n", r.Proof)
	} else {
		fmt.Fprintf(&b, "Whoever has the record makes a proof with `plait attest %s -o change.plait`.\n", r.Short)
	}
	return b.String()
}

// code returns a command as Markdown code on one line.
func code(s string) string {
	return "`` " + strings.ReplaceAll(inert(text.OneLine(s, 200)), "`", "'") + " ``"
}

// cell returns text for a cell of a Markdown table.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "`", "'").Replace(inert(text.OneLine(s, 80)))
}

// zero is a character without width.
const zero = "\u200b"

var (
	closing = regexp.MustCompile(`(?i)\b(c)(lose[sd]?|losing)\b|\b(f)(ix(?:e[sd])?)\b|\b(r)(esolve[sd]?)\b`)
	address = regexp.MustCompile(`(?i)(https?://|gh-)`)
	opening = strings.NewReplacer("@", "@"+zero, "#", "#"+zero, "<", "<"+zero, "![", "!"+zero+"[",
		"[skip", "["+zero+"skip", "[ci", "["+zero+"ci", "[no", "["+zero+"no", "[actions", "["+zero+"actions",
		"skip-checks", "skip"+zero+"-checks")
)

// inert returns text of an agent so that a forge acts on nothing in it: no mention, no issue that it closes, no check
// that it skips, no markup and no picture. It looks the same.
func inert(s string) string {
	s = opening.Replace(s)
	var b strings.Builder
	for line := range strings.Lines(s) {
		if address.MatchString(line) {
			line = closing.ReplaceAllString(line, "$1$3$5"+zero+"$2$4$6")
		}
		b.WriteString(line)
	}
	return b.String()
}

// A mark is the first line of what Plait makes on a forge, which shows it to nobody.
func mark(kind, id string) string { return "<!-- plait:" + kind + " " + id + " -->" }

// Marked returns the id of a mark of a kind, "" if the body has none. Only the first line counts: whoever quotes a text
// quotes its mark.
func Marked(kind, body string) string {
	first, _, _ := strings.Cut(body, "\n")
	rest, ok := strings.CutPrefix(strings.TrimSpace(first), "<!-- plait:"+kind+" ")
	id, end := strings.CutSuffix(rest, " -->")
	if !ok || !end {
		return ""
	}
	id, _, _ = strings.Cut(id, " ") // without the digest
	return id
}

// Answer is the body of a reply to a comment.
func Answer(comment, task, short, summary, commit string) string {
	said := inert(text.Clip(strings.TrimSpace(text.Safe(summary)), 8<<10))
	if commit != "" {
		said += "\n\n" + commit
	}
	return mark("reply", comment) + "\n" + said + "\n\nTask `" + short + "` (`" + task + "`)\n"
}

// costOf adds up what the steps of a change used, in words.
func costOf(c attest.Change) string {
	var tokens, micro int64
	for _, s := range c.Steps {
		tokens += s.Usage.InputTokens + s.Usage.OutputTokens
		micro += s.Usage.CostMicroUSD
	}
	if tokens == 0 {
		return ""
	}
	cost := text.Number(tokens) + " tokens"
	if micro > 0 {
		cost += ", " + text.Dollars(micro)
	}
	return cost
}
