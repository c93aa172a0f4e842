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
func drawBoard(root *os.Root, block []byte) error {
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
func splice(text, block []byte) []byte {
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
	out.WriteString(blockStart + "\n")
	out.Write(block)
	out.WriteString(blockEnd + "\n")
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

// A board is what the block of the state board shows.
type board struct {
	view.Task
	Program Program
	Tokens  int64
	Actions []actionRow // of the newest plan
	Agents  []agentRow
}

// An agentRow is an instance and what it does now.
type agentRow struct {
	view.Member
	Now string
}

// An actionRow is an action and the worker assigned to it. Its times are those of the record, so it is the same each
// time.
type actionRow struct {
	agentRow
	ID    string
	State view.MilestoneState
	After []string
	Time  string
}

// boardText returns the block of the state board, without its markers.
func boardText(p Program, v view.Task, now map[string]activity) ([]byte, error) {
	b := board{Task: v, Program: p, Tokens: v.Usage.InputTokens + v.Usage.OutputTokens}
	row := func(m view.Member, atWork bool, otherwise string) agentRow {
		d, ok := now[m.Attempt]
		if !ok || !atWork {
			return agentRow{m, otherwise}
		}
		m.Tokens += d.tokens
		return agentRow{m, text.OneLine(d.last, 120)}
	}
	by := make(map[string]view.Member) // thread of an action
	for _, m := range v.Roster {
		if m.Action != "" {
			by[m.Thread] = m
		}
		b.Agents = append(b.Agents, row(m, m.State == store.Running || m.State == store.Blocked, ""))
	}
	for _, m := range v.Milestones {
		if !m.Action {
			continue
		}
		atWork := m.State == view.MilestoneWorking || m.State == view.MilestoneBlocked
		a := actionRow{row(by[m.Thread], atWork, m.Title), m.ID, m.State, m.DependsOn, ""}
		if a.Time = took(int64(a.EndedAt - a.StartedAt)); a.StartedAt > 0 && a.EndedAt == 0 {
			a.Time = "since " + a.StartedAt.String()
		}
		b.Actions = append(b.Actions, a)
	}
	return page("board.md", b)
}
