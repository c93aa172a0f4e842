package tui

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// TestNameOfTheProgram checks that suggested commands begin with the name of the program, in errors too.
func TestNameOfTheProgram(t *testing.T) {
	g := approval(t, "g-1", "make")
	g.Source, g.Options = store.SourceAgent, []string{gate.Edit}
	g.ExpiresAt = noon.Add(72*time.Hour - time.Minute).UnixMilli()
	p := taskdir.Program{Name: "plaitd", Verbs: []string{"approve", "resume"}}
	q := newQuestion(gateCard{gate: g, program: p}, noon)
	q.resize(100, 30)
	said := strings.Join(q.body(), "\n")
	if !strings.Contains(said, "plaitd approve g-1 --edit") {
		t.Errorf("it says\n%s", said)
	}
	if !strings.Contains(said, ", expires in 2d 23h") {
		t.Errorf("it says of the time until which it can be answered\n%s", said)
	}
	d := newDesk(Config{Program: p, Begin: func(context.Context, string, string, string) (store.Thread, error) {
		return store.Thread{}, errors.New("continue it with plait resume k7f2")
	}, Control: control.New(control.Config{Store: mem.New(mem.Config{})})}, "")
	d.ctx = t.Context()
	if got := d.do(begin{}).(begun); got.err == nil || got.err.Error() != "continue it with plaitd resume k7f2" {
		t.Errorf("it says %v", got.err)
	}
}

// TestContinueElsewhere checks that a desk does not wait for a task that another process drives, and passes on what is
// said to it.
func TestContinueElsewhere(t *testing.T) {
	s := mem.New(mem.Config{})
	row := housetest.Begin(t.Context(), t, s, store.Thread{ID: "01K00000000000000000000000", CreatedAt: 1},
		housetest.Bundle(t, strings.Replace(housetest.TwoSteps("read"), "name: test", "name: chat", 1)), "go")
	other, err := s.Share().Acquire(t.Context(), row.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	c := control.New(control.Config{Store: s, Settings: housetest.Settings("fake"), Home: t.TempDir()})
	d := newDesk(Config{Store: s, Control: c, Views: &view.Reader{Store: s, Nodes: c.Reader()}}, row.ID)
	d.ctx = t.Context()
	if got := d.do(continueTask{row.ID, ""}); got != (elsewhere{}) {
		t.Errorf("it says %#v", got)
	}
	if got := d.do(continueTask{row.ID, "and this"}); got != (did{what: "sent to the task"}) {
		t.Errorf("it says %#v", got)
	}
	if !c.HasOpenInput(t.Context(), row.ID) {
		t.Error("what was said was not passed on")
	}
}
