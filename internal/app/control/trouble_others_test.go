package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/files/place"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/secret"
)

// Who cannot open a workspace leaves the task to others, and says why on its threads.
func TestTroubleOfALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]scripted{"only": say(status("done"))})
		h.clock = time.Now
		task := h.team(single)
		a, b := h.ailing("a"), h.ailing("b")
		a.open = errors.New("not allowed with the key of the shop")
		a.cfg.Secrets = &secret.Set{}
		a.cfg.Secrets.Add("the key of the shop")
		opens := 0
		a.cfg.Open = counting(a.cfg.Open, &opens)
		if agenda := a.looks(t, task); !agenda.At.Equal(time.UnixMilli(h.row(task).Reason.ResetAt)) {
			t.Errorf("it looks again at %v", agenda.At)
		}
		if said := h.row(task).Reason.Workers["a"]; !strings.Contains(said, "not allowed with ***") {
			t.Errorf("it says %q", said)
		}
		if agenda := a.looks(t, task); opens != 1 || !agenda.At.Equal(time.Now().Add(time.Second)) {
			t.Errorf("at once it opens again: %d times; %v", opens, agenda.At)
		}
		time.Sleep(5 * time.Second)
		serving, end := context.WithCancel(t.Context())
		go b.hold(serving, store.WorkerLease("b"))
		synctest.Wait()
		agenda := a.looks(t, task)
		if r := h.row(task).Reason; r.Failures != 1 || !agenda.At.Equal(time.Now().Add(time.Second)) {
			t.Errorf("although another could look, it is %+v, again at %v", r, agenda.At)
		}
		if ready := b.looks(t, task).Drive; len(ready) != 1 {
			t.Error("another cannot look")
		}
		end()
		synctest.Wait()
	})
}

// A confined store refuses to read a task's row.
type confined struct{ store.Store }

func (confined) Thread(context.Context, string) (store.Thread, error) {
	return store.Thread{}, fmt.Errorf("the task: %w", place.ErrElsewhere)
}

// Who must not do a task says so on its threads, and does not look at it all the time.
func TestTroubleElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		h.clock = time.Now
		task := h.team(single)
		a := h.ailing("a")
		a.cfg.Store = confined{h.store}
		agenda := a.looks(t, task)
		if r := h.row(task).Reason; r == nil || !agenda.At.Equal(time.UnixMilli(r.ResetAt)) ||
			!strings.Contains(r.Workers["a"], "not a directory of this worker") {
			t.Errorf("the thread says %+v; it looks again at %v", r, agenda.At)
		}
	})
}

// What a worker cannot do, it leaves for a while to one that serves, however busy that is; and then tries it again.
func TestTroubleLeavesItToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]scripted{"only": say(status("done"))})
		h.clock = time.Now
		task := h.team(single)
		a := h.ailing("a")
		a.agents = errors.New("there is no key")
		serving, end := context.WithCancel(t.Context())
		for _, name := range []string{"a", "b"} {
			go a.hold(serving, store.WorkerLease(name))
		}
		synctest.Wait()
		a.gives(t, task)
		tries := 1
		for range 20 {
			time.Sleep(time.Minute)
			if err := a.Drive(t.Context(), task, new(dispatch.Slot)); !errors.Is(err, dispatch.ErrBusy) {
				tries++
			}
		}
		if row := h.row(task); row.Status != store.Pending || row.Reason.Failures != 2 || tries != 2 {
			t.Errorf("after %d tries the thread is %s, %+v", tries, row.Status, row.Reason)
		}
		end()
		synctest.Wait()
	})
}

const checked = `
version: 1
name: asks
roles: {only: {description: d}}
gates: {ok: {kind: approval, question: "All right?"}}
graph:
  $START: {new: {role: only, prompt: "{{ prompt }}"}}
  only: {done: {role: ok}}
  ok: {approved: {role: $END}, rejected: {role: $END, code: 1}}
`

// A question was answered, but the workspace cannot be opened: the thread says so, and goes on with the answer.
func TestTroubleAfterAnAnswer(t *testing.T) {
	for name, find := range map[string]func(*ailing, *testing.T, string){
		"look":  func(a *ailing, t *testing.T, task string) { a.looks(t, task) },
		"drive": (*ailing).gives,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, map[string]scripted{"only": say(status("done"))})
				h.clock = time.Now
				task := h.team(checked)
				a, b := h.ailing("a"), h.ailing("b")
				if err := a.Drive(t.Context(), task, new(dispatch.Slot)); err != nil {
					t.Fatal(err)
				}
				b.open = errors.New("there is no key")
				if b.looks(t, task); h.row(task).Status != store.Blocked {
					t.Fatal("an open question is forgotten")
				}
				time.Sleep(openAgain)
				h.answer(h.gates(task, 1)[0].ID, true)
				find(b, t, task)
				if row := h.row(task); row.Status != store.Running || row.Reason == nil || row.Reason.Workers["b"] == "" {
					t.Fatalf("the thread is %s, %+v", row.Status, row.Reason)
				}
				if err := a.Drive(t.Context(), task, new(dispatch.Slot)); err != nil {
					t.Fatal(err)
				}
				if got := h.row(task).Status; got != store.Completed {
					t.Errorf("the task is %s", got)
				}
			})
		})
	}
}

// counting counts how often a workspace is opened.
func counting(open func(context.Context, store.Thread) (*Controller, error),
	n *int) func(context.Context, store.Thread) (*Controller, error) {
	return func(ctx context.Context, root store.Thread) (*Controller, error) {
		*n++
		return open(ctx, root)
	}
}
