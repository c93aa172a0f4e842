package tui

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// list returns a screen with two tasks, and a question of the second.
func list(width int) *screen {
	s := newScreen("/w", newForm(nil, nil), false, noon)
	s.update(tea.WindowSizeMsg{Width: width, Height: 20})
	s.update(overview{tasks: []view.TaskRow{
		{ID: "T1", Short: "aaaa", Title: "Fix the parser"}, {ID: "T", Short: "bbbb", Title: "Write docs"}},
		gates: []store.Gate{inputGate("g-1", "Which page?")}})
	return s
}

// TestFind tests that a list shows what is looked for, until Esc.
func TestFind(t *testing.T) {
	for _, width := range []int{80, 160} {
		s := list(width)
		keys(s, "/", "P", "a", "r", "s")
		got := drawn(s)
		if !strings.Contains(got, "Fix the parser") || strings.Contains(got, "Write docs") ||
			strings.Contains(got, "Which") {
			t.Errorf("found:\n%s", got)
		}
		keys(s, "enter", "enter")
		if s.task == nil || s.task.id != "T1" {
			t.Errorf("at %d columns the first task found was not opened: %+v", width, s.home.cursor)
		}
		keys(s, "esc", "esc")
		if got := drawn(s); !strings.Contains(got, "Write docs") || !strings.Contains(got, "/ find") {
			t.Errorf("after Esc:\n%s", got)
		}
		keys(s, "/", "z", "z")
		if got := drawn(s); !strings.Contains(got, "none with this text") {
			t.Errorf("nothing found:\n%s", got)
		}
		s.update(tea.PasteMsg{Content: "z"})
		if s.home.find.text != "zzz" {
			t.Errorf("pasted text is not looked for: %q", s.home.find.text)
		}
		if orders := keys(s, "q"); s.home.find.text != "zzzq" || len(orders) > 0 {
			t.Error("a typed q left")
		}
	}
}

// TestFindInStep tests that a step scrolls from one found line to the next.
func TestFindInStep(t *testing.T) {
	s := list(80)
	s.home.cursor = "T1"
	keys(s, "enter")
	s.step = &stepPane{step: &step{output: strings.Repeat("nothing\n", 30) + "here\n" +
		strings.Repeat("nothing\n", 30) + "Here\n" + strings.Repeat("nothing\n", 30)}}
	s.update(tick(noon))
	s.task.talking = true // below the step
	keys(s, "/", "h", "e", "r", "e", "enter")
	var tops []int
	for _, k := range []string{"", "n", "n", "N"} {
		if k != "" {
			keys(s, k)
		}
		tops = append(tops, s.step.top)
	}
	if d := cmp.Diff([]int{30, 61, 61, 30}, tops); d != "" {
		t.Error(d)
	}
}

// TestHelp tests that ? shows the keys of every pane, and that what is typed is not taken for it.
func TestHelp(t *testing.T) {
	s := list(80)
	keys(s, "?")
	if got := drawn(s); !strings.Contains(got, "start a new task") || strings.Contains(got, "Fix the parser") {
		t.Errorf("keys of the list:\n%s", got)
	}
	if orders := keys(s, "q"); len(orders) > 0 || s.helping {
		t.Error("q left instead of closing the keys")
	}
	s.home.cursor = "T1"
	keys(s, "enter", "?")
	if got := drawn(s); !strings.Contains(got, "talk to the task") {
		t.Errorf("keys of a task:\n%s", got)
	}
	ask := opened(inputGate("g-2", "Which?"), 80, 20)
	keys(ask, "?")
	if ask.helping || ask.q.typed.Value() != "?" {
		t.Error("a typed question mark showed the keys")
	}
}

// TestHelpHidesApproval tests that an approval counts as seen only once the keys no longer cover it.
func TestHelpHidesApproval(t *testing.T) {
	g := approval(t, "g-1", "make")
	s := opened(g, 80, 24)
	orders := keys(s, "?", "a", "a")
	if got := answers(orders); got != nil {
		t.Errorf("an approval that was just uncovered was given: %v", got)
	}
	s.update(settled{g.ID, g.Digest})
	if got := answers(keys(s, "a")); len(got) != 1 {
		t.Error("an approval that was on the screen was not given")
	}
	s = opened(g, 80, 24)
	if keys(s, "q"); s.q != nil {
		t.Error("q does not go back")
	}
}

// TestCursorFollowsTask tests that the selection goes from an answered question to its task.
func TestCursorFollowsTask(t *testing.T) {
	s := list(80)
	s.home.cursor = "g-1"
	s.update(overview{tasks: s.home.tasks})
	if s.home.cursor != "T" {
		t.Errorf("the selection is at %q", s.home.cursor)
	}
}
