package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/replay"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// answers are the answers of people in the task that is replayed.
type answers struct {
	c        *Controller
	player   *replay.Player
	recorded []question
	given    map[string]bool // gates that were answered
}

// A question identifies a gate across runs.
type question struct {
	thread, node, asks string
	gate               store.Gate
}

// An offScript reports that a replay asks a person something whose answer is not recorded.
type offScript struct{ why string }

func (e *offScript) Error() string { return e.why }

// answers reads people's answers in the task, and in those that it was forked from.
func (r *Replay) answers(ctx context.Context) (*answers, error) {
	a := &answers{c: r.c, player: r.player, given: map[string]bool{}}
	for row := r.Of; ; {
		gates, err := r.c.gates.Gates(ctx, store.GateFilter{Task: row.Task})
		if err != nil {
			return nil, err
		}
		for _, g := range gates {
			q, err := a.question(ctx, g)
			if err != nil {
				return nil, err
			}
			a.recorded = append(a.recorded, q)
		}
		from, ok, err := thread.Origin(ctx, r.c.cfg.Store, row)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		row = from
	}
	slices.SortStableFunc(a.recorded, func(a, b question) int { return cmp.Compare(a.gate.OpenedAt, b.gate.OpenedAt) })
	return a, nil
}

func (a *answers) question(ctx context.Context, g store.Gate) (question, error) {
	row, err := a.c.cfg.Store.Thread(ctx, g.Thread)
	if err != nil {
		return question{}, err
	}
	where, err := a.player.Where(ctx, row)
	options := slices.DeleteFunc(slices.Clone(g.Options), func(o string) bool { // older records have none
		return o == gate.Edit && g.Kind == store.GateApproval
	})
	asks := gateway.Known(nil).Text(fmt.Sprintf("%s\n%s\n%q\n%s", g.Kind, g.Question, options, g.Action))
	return question{where, g.Node, asks, g}, err
}

// answerAll answers a task's questions until ctx ends. It returns an *offScript for a question that has no recorded
// answer.
func (a *answers) answerAll(ctx context.Context, task string) error {
	for pos := int64(0); ; {
		open, err := a.c.gates.Gates(ctx, store.GateFilter{Task: task, State: store.GateOpen})
		if err != nil {
			return err
		}
		for _, g := range open {
			if a.given[g.ID] {
				continue
			}
			if err := a.answerOne(ctx, g); err != nil {
				return err
			}
		}
		if pos, err = a.c.cfg.Store.Wait(ctx, pos); err != nil {
			return err
		}
	}
}

// answerOne gives a question its recorded answer, in the name of the same person.
func (a *answers) answerOne(ctx context.Context, g store.Gate) error {
	q, err := a.question(ctx, g)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(a.recorded, func(r question) bool {
		return r.thread == q.thread && r.node == q.node && r.asks == q.asks
	})
	if i < 0 {
		return &offScript{fmt.Sprintf("%s asks what it did not ask when it was recorded: %s", cmp.Or(g.Node, g.Instance),
			g.Question)}
	}
	then := a.recorded[i].gate
	a.recorded, a.given[g.ID] = slices.Delete(a.recorded, i, i+1), true
	said := gate.Answer{By: then.By, Via: store.ViaReplay, Text: then.Text}
	if then.Via == store.ViaResume {
		said.Via = then.Via // the step records it
	}
	switch then.State {
	case store.GateExpired:
		said.Late = true
	case store.GateApproved:
		said.Approve, said.Grant = true, then.Grant
		if then.Edited != nil {
			then.Action = then.Edited
			if said.Input, err = gate.Input(then); err != nil {
				return err
			}
		}
	case store.GateRejected:
		said.Reject = true
	case store.GateAnswered:
	default:
		return &offScript{fmt.Sprintf("%s asks a question without a recorded answer: %s",
			cmp.Or(g.Node, g.Instance), g.Question)}
	}
	if _, err := a.c.gates.Answer(ctx, g.ID, said); err != nil && !errors.Is(err, store.ErrConflict) {
		return err
	}
	return nil
}
