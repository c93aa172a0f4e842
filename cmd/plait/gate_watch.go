package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) gateWatchCmd() *cobra.Command {
	var all, once bool
	cmd := &cobra.Command{
		Use:   "watch [TASK]",
		Short: "Watch what waits for a person, and answer it there",
		Long: `Watch what waits for a person: in this workspace, in one TASK until it has ended, or with
--all everywhere. On a terminal it is an inbox: the number of a gate shows it whole, then
"a" alone approves, "d" alone denies, "m TEXT" says what goes with it, and "answer TEXT"
answers a question. A number is never given to another gate.
Elsewhere, and with --json, it prints a line when a gate opens and when it is answered.

Ctrl-C ends it with exit code 130; "q", the end of the input and the end of TASK with 0.`,
		Args:              atMost(1, "one task"),
		ValidArgsFunction: a.completeThreads(store.Pending, store.Running, store.Blocked),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			f := &gateFeed{all: all, shown: map[string]store.Gate{}, here: map[string]bool{}}
			var err error
			if len(args) == 0 {
				f.w, err = a.open(ctx, "")
			} else {
				var row store.Thread
				if f.w, row, err = a.openTask(ctx, args[0]); err == nil {
					f.task = row.ID
				}
			}
			if err != nil {
				return err
			}
			if !once && !a.json && isTerminal(a.in) && isTerminal(a.out) {
				err = a.newInbox(f).run(ctx)
			} else {
				err = a.tellGates(ctx, f, once)
			}
			if ctx.Err() != nil {
				a.code = exitInterrupted
				return nil
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "of every workspace")
	cmd.Flags().BoolVar(&once, "once", false, "print what is open, and end")
	return cmd
}

// A gateFeed follows the gates of a task, of a workspace, or of all.
type gateFeed struct {
	w    *workplace
	all  bool
	task string // or ""

	begun bool
	pos   int64                 // of the last event that was read
	seen  int64                 // of the last event that there was
	shown map[string]store.Gate // as they were handed on, while they are open
	here  map[string]bool       // by thread: it belongs to the workspace
}

// next returns what has happened to gates since the last call: each gate as it opened,
// and as it was answered, in that order. The first call returns what is open.
func (f *gateFeed) next(ctx context.Context) ([]store.Gate, error) {
	if !f.begun {
		return f.first(ctx)
	}
	for _, g := range f.shown {
		if g.ExpiresAt != 0 && g.ExpiresAt <= time.Now().UnixMilli() {
			f.w.book().Gate(ctx, g.ID) // which lets it expire; where nothing can be written it stays
		}
	}
	const page = 1000
	var out []store.Gate
	for {
		events, err := f.w.store.Events(ctx, f.pos, store.EventFilter{Task: f.task, Limit: page})
		if err != nil {
			return nil, err
		}
		for _, ev := range events {
			f.pos = ev.Pos
			changed, err := f.event(ctx, ev)
			if err != nil {
				return nil, err
			}
			out = append(out, changed...)
		}
		if len(events) < page {
			f.seen = max(f.seen, f.pos)
			return out, nil
		}
	}
}

func (f *gateFeed) first(ctx context.Context) ([]store.Gate, error) {
	// What happens while the gates are listed is looked at twice, rather than never.
	some, err := f.w.store.Events(ctx, 0, store.EventFilter{Limit: 1})
	if err == nil && len(some) > 0 {
		f.pos, err = f.w.store.Wait(ctx, 0)
	}
	if err != nil {
		return nil, err
	}
	f.seen, f.begun = f.pos, true
	open, err := f.w.view().Gates(ctx, view.GateFilter{State: gate.Open, All: f.all || f.task != ""})
	if f.task != "" {
		open = slices.DeleteFunc(open, func(g store.Gate) bool { return g.Task != f.task })
	}
	for _, g := range open {
		f.shown[g.ID] = g
	}
	return open, err
}

// event returns what an event means for the gates that are followed.
func (f *gateFeed) event(ctx context.Context, ev store.Event) ([]store.Gate, error) {
	said, ok := event.Read(ev).(event.GateChanged)
	if !ok || said.Change == "used" || said.Gate == "" {
		return nil, nil
	}
	if here, err := f.follows(ctx, ev); err != nil || !here {
		return nil, err
	}
	g, err := f.w.store.Gate(ctx, said.Gate)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil // its task was removed
	}
	if err != nil {
		return nil, err
	}
	g = view.GateRow(g)
	_, known := f.shown[g.ID]
	var out []store.Gate
	if said.Change == "blocked" && !known {
		opened := g
		opened.State, opened.AnsweredAt, opened.UsedAt, opened.By, opened.Via, opened.Text = gate.Open, 0, 0, "", "", ""
		f.shown[g.ID], known = opened, true
		out = append(out, opened)
	}
	if known && g.State != gate.Open {
		delete(f.shown, g.ID)
		out = append(out, g)
	}
	return out, nil
}

// follows tells whether an event is of a thread that is followed.
func (f *gateFeed) follows(ctx context.Context, ev store.Event) (bool, error) {
	if f.all || f.task != "" {
		return true, nil // of one task only its events are read
	}
	here, known := f.here[ev.Thread]
	if known {
		return here, nil
	}
	row, err := f.w.store.Thread(ctx, ev.Thread)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	f.here[ev.Thread] = err == nil && row.Workspace == f.w.workspace
	return f.here[ev.Thread], nil
}

// wait returns when something may have happened to gates, and after most, when that is
// not zero.
func (f *gateFeed) wait(ctx context.Context, most time.Duration) error {
	for _, g := range f.shown {
		if g.ExpiresAt == 0 {
			continue
		}
		left := max(time.Until(time.UnixMilli(g.ExpiresAt)), 10*time.Millisecond)
		if most == 0 || left < most {
			most = left
		}
	}
	timed, cancel := ctx, context.CancelFunc(func() {})
	if most > 0 {
		timed, cancel = context.WithTimeout(ctx, most)
	}
	defer cancel()
	last, err := f.w.store.Wait(timed, f.seen)
	switch {
	case err == nil:
		f.seen = last
	case ctx.Err() != nil:
		return ctx.Err()
	case timed.Err() == nil:
		return err
	}
	return nil
}

// over tells whether the one task that is followed has ended.
func (f *gateFeed) over(ctx context.Context) (bool, error) {
	if f.task == "" {
		return false, nil
	}
	row, err := f.w.store.Thread(ctx, f.task)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	return row.Ended(), err
}

// A gateLine is what gate watch --json prints of a gate.
type gateLine struct {
	TS     int64      `json:"ts"`
	Type   string     `json:"type"` // as the event's
	Task   string     `json:"task"`
	Thread string     `json:"thread"`
	Gate   store.Gate `json:"gate"`
}

// tellGates prints a line for each gate that opens or is answered.
func (a *app) tellGates(ctx context.Context, f *gateFeed, once bool) error {
	for {
		over, err := f.over(ctx) // asked first, so that what came before the end is told
		if err != nil {
			return err
		}
		changed, err := f.next(ctx)
		if err != nil {
			return err
		}
		for _, g := range changed {
			if err := a.tellGate(g); err != nil {
				return err // nobody reads any more
			}
		}
		if once || over {
			return nil
		}
		if err := f.wait(ctx, 0); err != nil {
			return err
		}
	}
}

func (a *app) tellGate(g store.Gate) error {
	line := gateLine{TS: g.OpenedAt, Type: event.Type(event.GateChanged{Change: "blocked"}), Task: g.Task, Thread: g.Thread, Gate: g}
	if g.State != gate.Open {
		line.TS, line.Type = g.AnsweredAt, event.Type(event.GateChanged{Change: g.State})
	}
	if a.json {
		return a.line(line)
	}
	text := fmt.Sprintf("%s  %s asks: %s", oneLine(g.Kind, 20), oneLine(asker(g), 40), strings.Join(asks(g, 200), "; "))
	if g.ExpiresAt != 0 {
		text += "; until " + clock(g.ExpiresAt)
	}
	if g.State != gate.Open {
		text = closed(g)
	}
	_, err := fmt.Fprintf(a.out, "%s  %s  %s  %s\n", time.UnixMilli(line.TS).Format("15:04:05"), g.ID, where(g), text)
	return err
}

// closed says how a gate stopped waiting, in a line.
func closed(g store.Gate) string {
	text := g.State
	if g.By != "" {
		text += " by " + oneLine(g.By, 40)
	}
	if g.Via != "" {
		text += " via " + oneLine(g.Via, 20)
	}
	if g.Text != "" {
		text += ": " + oneLine(g.Text, 120)
	}
	return text
}

// asks says what a gate asks, in lines of at most so many characters: the question,
// and of an approval what exactly would be done.
func asks(g store.Gate, most int) []string {
	var lines []string
	add := func(label, text string) {
		if text = oneLine(text, most-len(label)); text != "" {
			lines = append(lines, label+text)
		}
	}
	add("", g.Question)
	var act gate.Action
	if unmarshal(g.Action, &act) && g.Kind == gate.Approval {
		add("command: ", act.Command)
		add("tool: ", act.Tool)
		if act.Diff != "" {
			add("diff: ", diffSummary(act.Diff))
		}
		if len(lines) == 0 {
			add("", act.Type)
		}
	}
	for i, option := range g.Options {
		if g.Kind == gate.Input && i < 9 {
			add("- ", option)
		}
	}
	return lines
}

// diffSummary counts what a unified diff changes.
func diffSummary(diff string) string {
	added, removed := 0, 0
	var files []string
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "+++ "):
			files = append(files, strings.TrimPrefix(strings.TrimSpace(line[4:]), "b/"))
		case strings.HasPrefix(line, "--- "):
		case strings.HasPrefix(line, "+"):
			added++
		case strings.HasPrefix(line, "-"):
			removed++
		}
	}
	text := fmt.Sprintf("+%d -%d lines", added, removed)
	if len(files) > 0 {
		text += " in " + strings.Join(files, ", ")
	}
	return text
}

// writeGateBrief prints a gate in an inbox.
func writeGateBrief(out io.Writer, st style, n int, g store.Gate, width int) int {
	head := fmt.Sprintf("%s  %s  %s  %s", g.ID, oneLine(g.Kind, 20), oneLine(asker(g), 40), ago(g.OpenedAt))
	if g.ExpiresAt != 0 {
		head += ", expires in " + time.Until(time.UnixMilli(g.ExpiresAt)).Round(time.Minute).String()
	}
	head += "  " + where(g)
	fmt.Fprintf(out, "%s  %s\n", st.bold(fmt.Sprintf("%3d", n)), shorten(head, max(width-6, 20)))
	lines := asks(g, max(width-6, 20))
	for _, line := range lines {
		fmt.Fprintf(out, "     %s\n", line)
	}
	return 1 + len(lines)
}
