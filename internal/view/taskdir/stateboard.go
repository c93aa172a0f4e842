package taskdir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

const boardFile = "shared/state-board.md"

// The markers between which state-board.md belongs to Plait. Each is on its own line.
const (
	blockStart = "<!-- PLAIT:STATEBOARD:START -->"
	blockEnd   = "<!-- PLAIT:STATEBOARD:END -->"
)

// maxBoard limits the size of a state board whose other parts are kept, in bytes.
const maxBoard = 4 << 20

// errSaved means that a person saved the state board while it was drawn.
var errSaved = errors.New("saved meanwhile")

// drawBoard redraws the block of state-board.md. The rest of the file is kept, byte for byte.
func drawBoard(root *os.Root, block string) error {
	for range 3 {
		old, was, err := readPlain(root, boardFile, maxBoard)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotPlain) {
			return fmt.Errorf("draw %s: %w", boardFile, err)
		}
		missing := err != nil
		text := splice(old, block)
		if !missing && bytes.Equal(text, old) {
			return nil
		}
		err = replaceBy(root, boardFile, func(f *os.File) error {
			if _, err := f.Write(text); err != nil {
				return err
			}
			if info, err := root.Lstat(boardFile); !missing && (err != nil || stampOf(info) != was) {
				return errSaved
			}
			return nil
		})
		if !errors.Is(err, errSaved) {
			return err
		}
	}
	return nil // it keeps changing; the next drawing tries again
}

// splice replaces the block between the markers in text with block, the last complete one if
// there are several. Without one, block is added at the end.
func splice(text []byte, block string) []byte {
	block = blockStart + "\n" + block + blockEnd + "\n"
	from, to := -1, -1
	open, at := -1, 0
	for line := range bytes.Lines(text) {
		switch strings.TrimSpace(string(line)) {
		case blockStart:
			open = at
		case blockEnd:
			if open >= 0 {
				from, to = open, at+len(line)
			}
			open = -1
		}
		at += len(line)
	}
	var out bytes.Buffer
	if from < 0 {
		out.Write(text)
		if len(text) > 0 {
			if text[len(text)-1] != '\n' {
				out.WriteByte('\n')
			}
			out.WriteByte('\n')
		}
		from, to = len(text), len(text)
	} else {
		out.Write(text[:from])
	}
	out.WriteString(block)
	out.Write(text[to:])
	return out.Bytes()
}

// An activity is what an attempt was last seen doing.
type activity struct {
	last   string
	tokens int64
}

// add records what an agent did.
func (d *activity) add(said event.AgentItems) {
	for _, data := range said.Items {
		var it struct {
			Kind, Phase, Text string
			Files             []struct{ Path string }
			Usage             *struct{ InputTokens, OutputTokens int64 }
		}
		if json.Unmarshal(data, &it) != nil {
			continue // items of an unknown form are skipped
		}
		if it.Usage != nil {
			d.tokens = it.Usage.InputTokens + it.Usage.OutputTokens
		}
		switch {
		case it.Phase == "updated" && it.Kind != "plan":
		case it.Text != "":
			d.last = text.OneLine(it.Text, 200)
		case len(it.Files) > 0:
			d.last = "changes " + text.OneLine(it.Files[0].Path, 150)
		}
	}
}

// boardText returns the block of the state board, without its markers.
func boardText(p view.Program, v view.Task, now map[string]activity) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("<!-- Plait draws what is between these two lines. Write above or below them: that stays. -->")
	line("")
	line("# %s", cell(v.Title, view.MaxTitle))
	line("")
	status := string(v.Status)
	if v.Reason != nil {
		status += ": " + cell(string(v.Reason.Kind)+", "+v.Reason.Message, 2000)
	}
	line("**%s** (%s)", v.State, status)
	line("")
	line("flow %s, %d steps, %d tokens, updated %s", cell(v.Flow, 80), v.Steps,
		v.Usage.InputTokens+v.Usage.OutputTokens, v.UpdatedAt)
	if c := v.Controller; c != nil {
		line("\n## Controller\n\n**%s** since %s", cell(c.State, 40), c.Since)
		if c.Round > 0 {
			line("\nplan %d, %d of %d actions completed: %s", c.Round, c.Done, c.Total, cell(c.Goal, 500))
		}
	}
	if open := v.OpenGates(); len(open) > 0 || v.GoOn != "" {
		line("\n## Waits for a person\n")
		if len(open) > 0 {
			line("| gate | kind | asked by | question | answer with |\n|---|---|---|---|---|")
			for _, g := range open {
				line("| %s | %s | %s | %s | `%s` |", cell(g.ID, 40), cell(string(g.Kind), 20), cell(g.AskedBy(), 80),
					cell(g.Question, 200), g.AnswerWith)
			}
			line("%s", p.Says("\nLook first with `plait gate show GATE`; refuse with `plait deny GATE`."))
		}
		if v.GoOn != "" {
			line("\nContinue with `%s`.", v.GoOn)
		}
	}
	b.WriteString(actionsText(v, now))
	line("\n## Agents\n")
	if len(v.Roster) == 0 {
		line("None has begun yet.")
	} else {
		line("| agent | state | done by | attempt | tokens | now |\n|---|---|---|---|---|---|")
	}
	for _, m := range v.Roster {
		last, tokens := "", m.Tokens
		if d, ok := now[m.Attempt]; ok && (m.State == store.Running || m.State == store.Blocked) {
			last, tokens = d.last, tokens+d.tokens
		}
		line("| %s | %s | %s | %d | %d | %s |", cell(m.Instance, 63), m.State, cell(m.Agent, 40), m.Attempts, tokens,
			cell(last, 120))
	}
	line("\n## Threads\n")
	line("| thread | path | flow | status | steps |\n|---|---|---|---|---|")
	for _, t := range v.Threads {
		status := string(t.Status)
		if t.Reason != nil {
			status += ": " + cell(string(t.Reason.Kind)+", "+t.Reason.Message, 2000)
		}
		if t.Kept != "" {
			status += "; its worktree stays: " + cell(t.Kept, 2000)
		}
		line("| %s | %s | %s | %s | %d |", cell(t.ID, 40), cell(t.Label, 80), cell(t.Flow, 80), status, t.Steps)
	}
	line("")
	return b.String()
}

// actionsText returns the table of current actions. Its times are those of the record, so it is
// the same each time.
func actionsText(v view.Task, now map[string]activity) string {
	var b strings.Builder
	for _, m := range actionRows(v) {
		if b.Len() == 0 {
			b.WriteString("\n## Actions\n\n")
			b.WriteString("| action | state | after | agent | tokens | time | now |\n|---|---|---|---|---|---|---|\n")
		}
		last, tokens, time := cell(m.Title, view.MaxTitle), m.Tokens, took(int64(m.EndedAt-m.StartedAt))
		if m.StartedAt > 0 && m.EndedAt == 0 {
			time = "since " + m.StartedAt.String()
		}
		if d, ok := now[m.Attempt]; ok && (m.State == view.MilestoneWorking || m.State == view.MilestoneBlocked) {
			last, tokens = cell(d.last, 120), tokens+d.tokens
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %d | %s | %s |\n", cell(m.ID, 80), m.State,
			cell(strings.Join(m.after, ", "), 200), cell(m.Agent, 40), tokens, time, last)
	}
	return b.String()
}

// An actionRow is an action and the worker assigned to it.
type actionRow struct {
	view.Member
	State view.MilestoneState
	ID    string
	after []string
}

func actionRows(v view.Task) []actionRow {
	by := make(map[string]view.Member)
	for _, m := range v.Roster {
		if m.Action != "" {
			by[m.Thread] = m
		}
	}
	var list []actionRow
	for _, m := range v.Milestones {
		if !m.Action {
			continue
		}
		a := actionRow{by[m.Thread], m.State, m.ID, m.DependsOn}
		a.Title = m.Title
		list = append(list, a)
	}
	return list
}

// cell makes text from agents safe in a table cell: one line, with Markdown escaped.
func cell(s string, most int) string {
	var b strings.Builder
	for _, r := range text.OneLine(s, most) {
		switch r {
		case '|', '[', ']', '<', '>', '*', '_', '`', '\\':
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
