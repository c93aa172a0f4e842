package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// A narrator prints what happens, one or more lines for each event.
type narrator struct {
	*view.Narrator
	// ends says that the state of the task itself is reported elsewhere, at its end.
	ends    bool
	program taskdir.Program
}

// line prints an event on one or more lines, or nothing if it is insignificant.
func (n *narrator) line(out io.Writer, ev store.Event) error {
	lines := n.describe(ev)
	if lines == "" {
		return nil
	}
	at := time.UnixMilli(ev.TS).Format("15:04:05")
	for line := range strings.SplitSeq(lines, "\n") {
		if _, err := fmt.Fprintf(out, "%s  %s\n", at, line); err != nil {
			return err
		}
	}
	return nil
}

// describe describes an event in lines.
func (n *narrator) describe(ev store.Event) string {
	if n.ends && n.Label(ev.Thread) == "" && (event.Is(ev, event.ThreadBlocked{}) || event.Is(ev, event.ThreadEnded{})) {
		return ""
	}
	var lines []string
	for _, s := range n.Tell(ev) {
		line := s.Text
		if s.Detail {
			line = "  " + line
		}
		if s.Who != "" || s.Detail {
			line = fmt.Sprintf("%-14s %s", s.Who, line)
		}
		if s.Asks.ID != "" {
			line += "  (" + n.program.Says(commandLine(view.AnswersOf(s.Asks)[0])) + ")"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
