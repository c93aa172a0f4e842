package tui

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// whole makes cmp compare the unexported fields of orders too.
var whole = cmp.Exporter(func(reflect.Type) bool { return true })

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// press returns the press of the named key.
func press(name string) tea.KeyPressMsg {
	named := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown,
		"tab": tea.KeyTab, "pgdown": tea.KeyPgDown}
	if code, ok := named[name]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	if rest, ok := strings.CutPrefix(name, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: rune(rest[0]), Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: rune(name[0]), Text: name}
}

// keys sends keys to a model and returns the resulting orders.
func keys(m model, names ...string) []order {
	var out []order
	for _, n := range names {
		out = append(out, m.update(press(n))...)
	}
	return out
}

// approval returns an open approval of a command.
func approval(t *testing.T, id, command string) store.Gate {
	t.Helper()
	act, err := json.Marshal(gate.Action{Type: gate.Command, Command: command})
	if err != nil {
		t.Fatal(err)
	}
	g := store.Gate{ID: id, Task: "T", Thread: "T", Kind: store.GateApproval, State: store.GateOpen, Question: "May I?",
		Action: act}
	if g.Digest, err = gate.Digest(g.Thread, g.Action); err != nil {
		t.Fatal(err)
	}
	return g
}

func inputGate(id, text string, options ...string) store.Gate {
	return store.Gate{ID: id, Task: "T", Thread: "T", Kind: store.GateInput, State: store.GateOpen, Question: text,
		Options: options}
}

// answers returns the answers among orders.
func answers(orders []order) []answer {
	var out []answer
	for _, o := range orders {
		if a, ok := o.(answer); ok {
			out = append(out, a)
		}
	}
	return out
}

// opened returns a screen of the given size that shows a question for longer than lookTime.
func opened(g store.Gate, width, height int) *screen {
	s := newScreen("/w", newForm(nil, nil), false, noon)
	s.update(tea.WindowSizeMsg{Width: width, Height: height})
	s.update(overview{gates: []store.Gate{g}})
	s.home.cursor = g.ID
	keys(s, "enter")
	s.update(gateRead{gateCard: gateCard{gate: g}})
	s.update(settled{g.ID, g.Digest})
	return s
}

func drawn(m model) string { return ansi.Strip(strings.Join(m.lines(), "\n")) }

// TestAnswers tests which keys answer, with what, and for which digest.
func TestAnswers(t *testing.T) {
	yes := approval(t, "g-1", "make")
	ask := inputGate("g-2", "Which?", "red", "blue")
	for name, x := range map[string]struct {
		gate store.Gate
		keys []string
		want []answer
	}{
		"a approves": {yes, []string{"a"}, []answer{{"g-1", "T", gate.Answer{Approve: true, Digest: yes.Digest}}}},
		"d denies with a reason": {yes, []string{"d", "a", "enter"},
			[]answer{{"g-1", "T", gate.Answer{Reject: true, Text: "a", Digest: yes.Digest}}}},
		"d denies without": {yes, []string{"d", "enter"}, []answer{{"g-1", "T", gate.Answer{Reject: true,
			Digest: yes.Digest}}}},
		"a reason can be taken back": {yes, []string{"d", "x", "esc"}, nil},
		"Enter does not approve":     {yes, []string{"enter", "enter"}, nil},
		"other keys do nothing":      {yes, []string{"y", "A", "q", "1", "tab"}, nil},
		"twice is once": {yes, []string{"a", "a"}, []answer{{"g-1", "T", gate.Answer{Approve: true,
			Digest: yes.Digest}}}},
		"words answer":           {ask, []string{"a", "b", "enter"}, []answer{{"g-2", "T", gate.Answer{Text: "ab"}}}},
		"a number is its option": {ask, []string{"2", "enter"}, []answer{{"g-2", "T", gate.Answer{Text: "blue"}}}},
		"a number that is none":  {ask, []string{"3", "enter"}, []answer{{"g-2", "T", gate.Answer{Text: "3"}}}},
		"nothing is no answer":   {ask, []string{"enter"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(x.want, answers(keys(opened(x.gate, 80, 24), x.keys...)), whole); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestNothingUnseenIsApproved tests when a key does not count: before lookTime has passed or all of the approval has
// been visible; when it was answered or has changed; when it is not open; and when it is pasted.
func TestNothingUnseenIsApproved(t *testing.T) {
	g := approval(t, "g-1", "make")
	long := approval(t, "g-1", strings.Repeat("echo one two three\n", 60))
	other := g
	other.Digest = long.Digest
	for name, x := range map[string]struct {
		screen func() *screen
		want   string // on the screen
	}{
		"typed ahead": {func() *screen {
			s := opened(g, 80, 24)
			s.q.ready = false
			keys(s, "a")
			return s
		}, "look at it first"},
		"not all of it": {func() *screen { s := opened(long, 80, 24); keys(s, "down", "a"); return s },
			"see all of it first"},
		"smaller now": {func() *screen {
			s := opened(approval(t, "g-1", strings.Repeat("echo\n", 20)), 80, 40)
			s.update(tea.WindowSizeMsg{Width: 60, Height: 12})
			keys(s, "a")
			return s
		}, "see all of it first"},
		"answered elsewhere": {func() *screen { s := opened(g, 80, 24); s.update(overview{}); keys(s, "a"); return s },
			"needs no answer any more"},
		"another one now": {func() *screen {
			s := opened(g, 80, 24)
			s.update(overview{gates: []store.Gate{other}})
			keys(s, "a")
			return s
		}, "something else now"},
		"not open": {func() *screen { s := opened(g, 80, 24); keys(s, "esc", "a"); return s }, "NEEDS YOU"},
		"pasted": {func() *screen { s := opened(g, 80, 24); s.update(tea.PasteMsg{Content: "a\r"}); return s },
			"a approve"},
	} {
		t.Run(name, func(t *testing.T) {
			s := x.screen()
			if !strings.Contains(drawn(s), x.want) {
				t.Errorf("there is no %q:\n%s", x.want, drawn(s))
			}
			if s.q != nil && s.q.sent {
				t.Error("it was sent")
			}
		})
	}
	s := opened(long, 80, 24)
	if got := answers(keys(s, strings.Split(strings.Repeat("pgdown ", 8)+"a", " ")...)); len(got) != 1 {
		t.Errorf("it cannot be approved though all of it was seen: %v\n%s", got, drawn(s))
	}
}

// TestRefused checks that a refused answer is reported, and that the question can be viewed again.
func TestRefused(t *testing.T) {
	s := opened(approval(t, "g-1", "make"), 80, 24)
	keys(s, "a")
	s.update(answered{err: fmt.Errorf("gate g-1 asks for something else than what was shown: %w", store.ErrConflict)})
	if got := drawn(s); !strings.Contains(got, "something else than what was shown") || strings.Contains(got, "sending") {
		t.Errorf("it is not told:\n%s", got)
	}
}

// TestFocus checks that the cursor never moves to an approval by itself.
func TestFocus(t *testing.T) {
	a, q := approval(t, "g-1", "make"), inputGate("g-2", "Which?")
	s := newScreen("/w", newForm(nil, nil), false, noon)
	s.update(overview{gates: []store.Gate{a}})
	if s.home.cursor != "" {
		t.Errorf("it stands on %q", s.home.cursor)
	}
	s.update(overview{gates: []store.Gate{a, q}})
	keys(s, "down", "down")
	if s.home.cursor != "g-2" {
		t.Fatalf("it stands on %q", s.home.cursor)
	}
	s.update(overview{gates: []store.Gate{a}, tasks: []view.TaskRow{{ID: "T", Short: "k7f2"}}})
	if s.home.cursor != "T" {
		t.Errorf("its row went, and it stands on %q", s.home.cursor)
	}
}

// TestFits checks that twelve agents with questions fit completely at 80×24, and that nothing is ever wider or
// higher than the terminal.
func TestFits(t *testing.T) {
	r := crowd(12)
	r.asked = []gateCard{{gate: inputGate("g-2", "Which port shall it have?")}, {gate: approval(t, "g-1", "make")}}
	for _, full := range []bool{true, false} {
		for _, size := range [][2]int{{80, 24}, {160, 50}, {40, 12}, {20, 8}, {119, 10}, {120, 10}} {
			var m model
			if full {
				s := newScreen("/w", newForm(nil, nil), false, noon)
				s.task = newTaskPane("T")
				m = s
			} else {
				m = newLive(Run{Task: "T"}, false, noon)
			}
			m.update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			m.update(tick(noon.Add(75 * time.Second)))
			m.update(overview{tasks: []view.TaskRow{{ID: "T", Short: "k7f2", Title: strings.Repeat("long ", 50)}},
				gates: gatesOf(r.asked)})
			m.update(r)
			lines := m.lines()
			if len(lines) > size[1] {
				t.Errorf("%v: %d lines", size, len(lines))
			}
			for _, l := range lines {
				if ansi.StringWidth(l) > size[0] {
					t.Errorf("%v: %d columns: %q", size, ansi.StringWidth(l), l)
				}
			}
			all := strings.Join(lines, "\n")
			if strings.Contains(all, "\x1b[2J") || strings.Contains(all, "\x1b]0") {
				t.Errorf("%v: what an agent said is obeyed: %q", size, all)
			}
			if size[1] >= 24 && (!full || size[0] >= 80) {
				for _, want := range []string{"Which port shall it have?", "planner"} {
					if !strings.Contains(all, want) {
						t.Errorf("%v: there is no %q:\n%s", size, want, drawn(m))
					}
				}
			}
			if full && size[1] >= 24 && strings.Count(all, "look-at-part-") != 12 {
				t.Errorf("%v: not all agents are there:\n%s", size, drawn(m))
			}
		}
	}
}

// TestLeavingAsks checks that nothing that runs here is stopped without the person's confirmation.
func TestLeavingAsks(t *testing.T) {
	l := newLive(Run{Task: "T"}, true, noon)
	l.update(crowd(1))
	if got := keys(l, "ctrl+c"); got != nil || !strings.Contains(drawn(l),
		"s stop (resume later) · d detach · k keep watching") {
		t.Errorf("it orders %v:\n%s", got, drawn(l))
	}
	if got := keys(l, "k", "ctrl+c", "d"); !cmp.Equal(got, []order{detach{"T"}, quit{}}, whole) || l.end.Detached {
		t.Errorf("it orders %v", got)
	}
	l.update(detached{task: "T"})
	if !l.end.Detached || l.end.DetachErr != nil {
		t.Errorf("it continues in the background, and the view ends with %+v", l.end)
	}
	refused := errors.New("the configuration changed")
	l = newLive(Run{Task: "T"}, true, noon)
	keys(l, "ctrl+c", "d")
	l.update(detached{"T", refused})
	l.update(driven{row: store.Thread{ID: "T"}, err: engine.ErrInterrupted})
	if l.end.Detached || l.end.DetachErr != refused {
		t.Errorf("it does not continue in the background, and the view ends with %+v", l.end)
	}
	s := newScreen("/w", newForm(nil, nil), true, noon)
	s.update(overview{driving: map[string]bool{"T": true}, tasks: []view.TaskRow{{ID: "T", Short: "k7f2"}}})
	if got := keys(s, "q", "d"); !cmp.Equal(got, []order{detach{"T"}, quit{}}, whole) {
		t.Errorf("it orders %v", got)
	}
	s.update(detached{"T", refused})
	if !errors.Is(s.failed, refused) || !strings.Contains(s.failed.Error(), "k7f2") {
		t.Errorf("it does not continue in the background, and the screen ends with %v", s.failed)
	}
	s = newScreen("/w", newForm(nil, nil), false, noon)
	s.update(overview{driving: map[string]bool{"T": true}})
	keys(s, "q")
	if got := s.update(overview{}); !cmp.Equal(got, []order{quit{}}, whole) {
		t.Errorf("nothing runs any more, and it orders %v", got)
	}
	s = newScreen("/w", newForm(nil, nil), false, noon)
	s.update(overview{driving: map[string]bool{"T": true}})
	if got := keys(s, "q", "d", "k", "q", "s"); !cmp.Equal(got, []order{quit{}}, whole) {
		t.Errorf("it orders %v", got)
	}
}

// TestNothingEndsUnasked checks that a task is cancelled only after a yes, and forked only after Enter.
func TestNothingEndsUnasked(t *testing.T) {
	on := func(status store.Status, state view.DisplayState) *screen {
		s := newScreen("/w", newForm(nil, nil), false, noon)
		r := crowd(1)
		r.driven, r.driving, r.task.Status, r.task.Display.State = false, false, status, state
		s.task = newTaskPane("T")
		s.update(r)
		return s
	}
	held, runs := on(store.Cancelled, view.DisplayCancelled), on(store.Running, view.DisplayRunning)
	held.task.read.driven, runs.task.read.driven = true, true
	forked := on(store.Completed, view.DisplayDone)
	keys(forked, "F")
	forked.update(stepRead{step: step{thread: "T", n: 3, role: "planner"}})
	for name, x := range map[string]struct {
		screen *screen
		keys   []string
		want   []order
	}{
		"c asks":                  {on(store.Blocked, view.DisplayNeedsYou), []string{"c"}, nil},
		"c and y":                 {on(store.Blocked, view.DisplayNeedsYou), []string{"c", "y", "y"}, []order{cancel{"T"}}},
		"another key is a no":     {on(store.Blocked, view.DisplayNeedsYou), []string{"c", "enter", "y"}, nil},
		"what ended":              {on(store.Completed, view.DisplayDone), []string{"c", "y"}, nil},
		"r resumes":               {on(store.Blocked, view.DisplayNeedsYou), []string{"r"}, []order{continueTask{"T", ""}}},
		"r retries what failed":   {on(store.Failed, view.DisplayFailed), []string{"r"}, []order{retry{"T"}}},
		"r retries the cancelled": {on(store.Cancelled, view.DisplayCancelled), []string{"r"}, []order{retry{"T"}}},
		"r, held by its driver":   {held, []string{"r"}, []order{retry{"T"}}},
		"r of what runs":          {runs, []string{"r"}, nil},
		"r of what is done":       {on(store.Completed, view.DisplayDone), []string{"r"}, nil},
		"F asks for words":        {forked, []string{"y", "enter", "enter"}, []order{fork{"T", 3, "y"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(x.want, keys(x.screen, x.keys...), whole); diff != "" {
				t.Errorf("-want +got\n%s\n%s", diff, drawn(x.screen))
			}
		})
	}
}

// TestForm tests what a new task is started with.
func TestForm(t *testing.T) {
	blank := newForm([]control.KnownFlow{{Name: "audit", Source: "project"}, {Name: "solo", Source: "built-in"}},
		[]string{"auto\tas the flow", "fix\tmends"})
	for name, x := range map[string]struct {
		keys []string
		want []order
	}{
		"solo without more":    {[]string{"a", "enter"}, []order{begin{flow: "solo", prompt: "a"}}},
		"nothing is no prompt": {[]string{"enter"}, nil},
		"a flow and a model":   {[]string{"up", "tab", "tab", "a", "enter"}, []order{begin{"audit", "a", "fix"}}},
		"once round": {[]string{"down", "down", "tab", "tab", "tab", "a", "enter"}, []order{begin{flow: "solo",
			prompt: "a"}}},
		"left": {[]string{"a", "esc", "enter"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScreen("/w", blank, false, noon)
			keys(s, "n")
			if diff := cmp.Diff(x.want, keys(s, x.keys...), whole); diff != "" {
				t.Errorf("-want +got\n%s\n%s", diff, drawn(s))
			}
		})
	}
}

// Text that a task did not accept is in the input line again.
func TestRefusedText(t *testing.T) {
	s := &screen{task: newTaskPane("T")}
	say := func() {
		s.task.talking = true
		s.task.talk.SetValue("a long instruction")
		s.task.inputKey(press("enter"))
	}
	say()
	if s.settle(false); s.task.talking || s.task.talk.Value() != "" {
		t.Errorf("accepted text is there again: %q", s.task.talk.Value())
	}
	say()
	if s.settle(true); !s.task.talking || s.task.talk.Value() != "a long instruction" {
		t.Errorf("refused text is gone: %q", s.task.talk.Value())
	}
}

// A list of questions that was read before a question was asked does not end it.
func TestOlderListOfQuestions(t *testing.T) {
	asked := store.Gate{ID: "g", Digest: dag.Sum([]byte("it"))}
	q := &question{gateCard: gateCard{gate: asked}}
	if q.check(nil); q.gone == "" {
		t.Error("it is open although it is not listed")
	}
	if q.check([]store.Gate{asked}); q.gone != "" {
		t.Errorf("it is listed again, and %s", q.gone)
	}
}
