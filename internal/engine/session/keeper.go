package session

import (
	"context"
	"errors"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/secret"
)

// Config configures a Keeper.
type Config struct {
	Store interface {
		store.Objects
		store.Index
	}
	Nodes   *thread.Reader
	Home    func(task string) string // where the agents of a task keep their files, "" if there is no such place
	Secrets *secret.Set              // what is not exported
	Replays bool                     // attempts are replayed: their sessions hold what is recorded
}

// A Keeper reads sessions from the record, and exports them to it. Methods may be called concurrently.
type Keeper struct{ cfg Config }

// NewKeeper returns a keeper; it touches nothing.
func NewKeeper(cfg Config) *Keeper { return &Keeper{cfg} }

// Find finds the session of each role's last step in a chain, which a thread that branches off after the chain can
// branch off too. Steps of other threads count as well: those of a joined path, or from before a fork.
func (k *Keeper) Find(ctx context.Context, s Sessions, steps []thread.Step) error {
	seen := map[string]bool{}
	for i := len(steps) - 1; i >= 0; i-- {
		step := steps[i]
		role := step.State.Role
		if !thread.Routed(role) || seen[role] {
			continue
		}
		seen[role] = true
		delete(s.steps, role)
		d, err := k.cfg.Nodes.Detail(ctx, step.State.Detail)
		if err != nil {
			return err
		}
		if d == nil || d.Session == "" {
			continue
		}
		was := session{id: d.Session, knows: step.Hash, by: d.Attempt, gone: true, foreign: true, agent: d.Agent,
			role: role, last: step.Hash, memory: d.Memory}
		a, err := k.cfg.Store.Attempt(ctx, d.Attempt)
		switch {
		case errors.Is(err, store.ErrNotFound): // its task was removed, and the session with it
		case err != nil:
			return err
		default:
			origin, err := k.cfg.Store.Thread(ctx, a.Thread)
			if err != nil {
				return err
			}
			was.turn, was.home, was.gone = a.Turn, k.cfg.Home(origin.Task), false
		}
		s.steps[role] = was
	}
	return nil
}

// Recall reads what a thread's own sessions hold.
func (k *Keeper) Recall(ctx context.Context, s Sessions) error {
	for role, own := range s.own {
		if own.last.IsZero() || own.foreign {
			continue
		}
		d, err := k.detail(ctx, own.last)
		if err != nil {
			return err
		}
		if d != nil && d.Session == own.id {
			own.memory = d.Memory
			s.own[role] = own
		}
	}
	return nil
}

// detail returns the detail of a step.
func (k *Keeper) detail(ctx context.Context, step dag.Hash) (*thread.Detail, error) {
	state, err := k.cfg.Nodes.State(ctx, step)
	if err != nil {
		return nil, err
	}
	return k.cfg.Nodes.Detail(ctx, state.Detail)
}

// Done notes the session in which an attempt of a task has just become a step, and what it holds.
func (k *Keeper) Done(s Sessions, task string, a store.Attempt, step dag.Hash, memory *thread.Memory) {
	delete(s.steps, a.Role)
	if a.Session != "" {
		s.steps[a.Role] = session{id: a.Session, turn: a.Turn, knows: step, by: a.ID, foreign: true,
			home: k.cfg.Home(task), agent: a.Agent, role: a.Role, last: step, memory: memory}
		own := s.own[a.Role]
		own.memory = memory
		s.own[a.Role] = own
	}
}
