package control

import (
	"errors"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

// everywhere is a place that has each workspace.
type everywhere struct{ worktree.Place }

func (everywhere) Has(store.Thread) bool { return true }

// A task that could not be begun leaves none of the person's files in the record.
func TestAnUploadThatFailsIsNotKept(t *testing.T) {
	noAgent := errors.New("no such agent")
	for name, c := range map[string]struct {
		want   error
		staged bool
	}{
		"its agent is missing":     {want: noAgent},
		"it fails after the stage": {want: errBroken, staged: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, loopAgents())
			h.repository()
			staged := false
			h.store = mem.New(mem.Config{Proven: true, Fault: func(op mem.Op, when mem.When) error {
				if op != mem.OpStage || when != mem.After {
					return nil
				}
				staged = true
				return errBroken
			}})
			ctl := h.controller()
			ctl.cfg.Place = everywhere{}
			made := ctl.cfg.Agent
			ctl.cfg.Agent = func(name string, def flow.Agent, o AgentOptions) (agent.Agent, error) {
				if o.Workspace != "plait" {
					t.Errorf("the agent is checked for workspace %q", o.Workspace)
				}
				if c.want == noAgent {
					return nil, noAgent
				}
				return made(name, def, o)
			}
			_, err := ctl.Begin(t.Context(), Spec{Bundle: mustPack(t, loop).Bundle, Prompt: "do it", Workspace: h.dir,
				Tree: h.dir, Upload: &Upload{Workspace: "plait"}, Options: Options{On: OnTeam}})
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if staged != c.staged {
				t.Errorf("staged: %v", staged)
			}
			if pins, err := h.store.Pins(t.Context()); err != nil || len(pins) > 0 {
				t.Errorf("pinned: %v, %v", pins, err)
			}
		})
	}
}
