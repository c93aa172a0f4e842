package tui

import (
	"errors"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
)

// TestLive tests a run on a terminal: a question opens immediately, an approval waits until a person opens it, the
// task continues after answers, and the view ends when nothing more can be answered here.
func TestLive(t *testing.T) {
	ask, yes := inputGate("g-2", "Which?"), approval(t, "g-1", "make")
	l := newLive(Run{Task: "T", Resume: control.Resume{Wait: true}}, false, noon)
	if diff := cmp.Diff([]order{drive{"T", control.Resume{Wait: true}}}, l.begin(), whole); diff != "" {
		t.Errorf("it begins otherwise: -want +got\n%s", diff)
	}
	l.update(taskRead{id: "T", asked: []gateCard{{gate: yes}}})
	if l.q != nil {
		t.Fatal("an approval opened by itself")
	}
	keys(l, "a")
	l.update(taskRead{id: "T", asked: []gateCard{{gate: yes}, {gate: ask}}})
	if l.q == nil || l.q.gate.ID != "g-2" {
		t.Fatal("the question did not open")
	}
	got := answers(keys(l, "a", "tab", "tab", "enter"))
	if len(got) != 1 || got[0].gate != "g-2" || got[0].with.Text != "a" {
		t.Errorf("it answers %v", got)
	}
	one := newLive(Run{Task: "T"}, false, noon)
	one.update(taskRead{id: "T", asked: []gateCard{{gate: ask}}})
	if got := answers(keys(one, "a", "tab", "b", "enter")); len(got) != 1 || got[0].with.Text != "ab" {
		t.Errorf("after Tab, which leads nowhere, it answers %v", got)
	}
	l.update(answered{gate: ask})
	keys(l, "tab")
	l.update(settled{"g-1", yes.Digest})
	if got := answers(keys(l, "a")); len(got) != 1 || !got[0].with.Approve || got[0].with.Digest != yes.Digest {
		t.Errorf("it answers %v", got)
	}
	blocked := store.Thread{ID: "T", Status: store.Blocked, Reason: &store.Reason{Kind: store.ReasonGate}}
	for _, o := range l.update(driven{row: blocked}) {
		if _, ends := o.(quit); ends {
			t.Error("it ends though something is asked")
		}
	}
	clear(l.reading)
	clear(l.again)
	l.stale = false
	if diff := cmp.Diff([]order{quit{}}, l.update(taskRead{id: "T"}), whole); diff != "" {
		t.Errorf("nothing is asked any more: -want +got\n%s", diff)
	}
}

// TestTalk tests a conversation: the first line starts it, and messages are sent one at a time.
func TestTalk(t *testing.T) {
	l := newLive(Run{Flow: "chat"}, false, noon)
	l.update(tea.WindowSizeMsg{Width: 40, Height: 12})
	if got := keys(l, "h", "i", "enter"); !cmp.Equal(got[1], order(begin{flow: "chat", prompt: "hi"}), whole) {
		t.Errorf("it orders %v", got)
	}
	l.update(begun{row: store.Thread{ID: "T"}})
	if got := keys(l, "x", "enter"); got != nil || l.talk.Value() != "x" {
		t.Errorf("it orders %v while it waits for an answer", got)
	}
	l.update(driven{row: store.Thread{ID: "T", Status: store.Blocked, Reason: &store.Reason{Kind: store.ReasonInput}}})
	got := l.update(taskRead{id: "T", turns: []turn{{n: 1, person: true, text: "hi"}, {n: 2, text: "hello\x1b[2J"}}})
	if len(got) == 0 || !cmp.Equal(got[len(got)-1], order(keep{[]string{`  hello\x1b[2J`, ""}}), whole) {
		t.Errorf("it orders %v", got)
	}
	if got := keys(l, "enter"); !cmp.Equal(got[1], order(continueTask{"T", "x"}), whole) {
		t.Errorf("it orders %v", got)
	}
}

// TestTalkIsRefused tests that text that was not accepted can be sent again, and that a conversation goes on that
// another process works on.
func TestTalkIsRefused(t *testing.T) {
	l := newLive(Run{Flow: "chat"}, false, noon)
	keys(l, "h", "i", "enter")
	l.update(begun{err: errors.New("no such agent")})
	if got := keys(l, "enter"); len(got) != 2 || !cmp.Equal(got[1], order(begin{flow: "chat", prompt: "hi"}), whole) {
		t.Fatalf("it orders %v", got)
	}
	l.update(begun{row: store.Thread{ID: "T"}})
	l.update(elsewhere{})
	keys(l, "a", "enter", "b")
	l.update(did{err: errors.New("the record is full")})
	if got := l.talk.Value(); got != "a b" || !strings.Contains(drawn(l), "the record is full") {
		t.Errorf("%q can be sent again:\n%s", got, drawn(l))
	}
	keys(l, "enter")
	l.update(did{what: "sent to the task"})
	if got := keys(l, "c", "enter"); len(got) != 2 || !cmp.Equal(got[1], order(continueTask{"T", "c"}), whole) {
		t.Errorf("it orders %v", got)
	}
}

// TestElsewhere tests that a task that another process continues is only watched.
func TestElsewhere(t *testing.T) {
	l := newLive(Run{Task: "T", Resume: control.Resume{Wait: true}}, false, noon)
	l.update(driven{row: store.Thread{ID: "T", Status: store.Blocked}})
	l.update(answered{gate: inputGate("g-1", "Which?")})
	l.update(elsewhere{})
	if got := l.update(taskRead{id: "T"}); !cmp.Equal(got, []order{readTask{"T"}}, whole) {
		t.Errorf("the read began before it was driven, and it orders %v", got)
	}
	if got := l.update(taskRead{id: "T", driven: true}); got != nil {
		t.Errorf("it works, and the view orders %v", got)
	}
	if got := keys(l, "ctrl+c"); !cmp.Equal(got, []order{quit{}}, whole) {
		t.Errorf("leaving stops nothing, and it orders %v", got)
	}
	if got := l.update(taskRead{id: "T"}); !cmp.Equal(got, []order{quit{}}, whole) {
		t.Errorf("it works no more, and the view orders %v", got)
	}
}
