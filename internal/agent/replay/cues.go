package replay

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A spot is a thread after a number of steps. It is the same in every run of a flow.
type spot struct {
	thread string // see Player.Where
	steps  int
}

// cue adds what happened at a spot, if the step there was not made by the flow or an agent.
func (s *script) cue(ctx context.Context, at spot, step thread.Step) error {
	st := step.State
	switch st.Role {
	case thread.RoleInput:
		var input struct {
			Gate   string
			Source store.Via
		}
		err := json.Unmarshal(st.Meta, &input)
		if err != nil || input.Gate != "" {
			return err
		}
		w := &store.Request{Kind: store.RequestInput, Via: input.Source}
		if w.Text, err = s.nodes.Text(ctx, st.Content); err != nil {
			return err
		}
		if about, is, err := thread.CommentOf(st); err != nil {
			return err
		} else if is {
			if w.Options, err = json.Marshal(map[string]any{"about": about}); err != nil { // as the engine reads it
				return err
			}
		}
		if d, err := s.nodes.Detail(ctx, st.Detail); err != nil {
			return err
		} else if d != nil && d.By != nil {
			w.By = *d.By
		}
		s.cues[at] = thread.Cue{Input: w}
	case thread.RoleCompact:
		d, err := s.nodes.Detail(ctx, st.Detail)
		if err != nil || d == nil {
			return err
		}
		s.cues[at] = thread.Cue{Summarizes: d.Agent}
	case thread.RoleEnd:
		var end struct{ ReturnCode int }
		if err := json.Unmarshal(st.Meta, &end); err != nil {
			return err
		}
		if end.ReturnCode == thread.CodeCancelled {
			s.cues[at] = thread.Cue{End: store.Cancelled}
		}
	}
	return nil
}

// A failure is how the last attempt of a path failed when nothing came of it.
type failure struct {
	kind    store.FailureKind
	message string
	thread  string // of the path
}

func (f failure) failure() error {
	return &agent.Failure{Kind: string(f.kind), Message: f.message, Final: true}
}

// failed adds how a path failed after its last step. What its flow or its agent says fails it again.
func (s *script) failed(at spot, path string, f thread.PathFailure) {
	_, said, attempted := strings.Cut(f.Message, ": "+string(f.Kind)+": ") // after the role
	switch {
	case f.Kind == store.FailureSaid || f.Kind == store.FailureRoute:
	case attempted:
		s.failures[at] = failure{f.Kind, said, path}
	default:
		s.cues[at] = thread.Cue{End: store.Failed,
			Why: store.Reason{Kind: store.ReasonFailed, Failure: f.Kind, Message: f.Message}}
	}
}

// verdict adds how a join was decided.
func (s *script) verdict(at spot, st *thread.State) error {
	var meta struct {
		Status    string  `json:"$status"`
		DecidedBy *string `json:"decidedBy"`
	}
	if err := json.Unmarshal(st.Meta, &meta); err != nil {
		return err
	}
	v := &thread.Verdict{Outcome: meta.Status, Paths: map[string]store.Status{}}
	for _, p := range st.Paths {
		v.Paths[p.ID] = p.Status
	}
	if meta.DecidedBy != nil {
		v.DecidedBy = *meta.DecidedBy
	}
	s.verdicts[at] = v
	return nil
}

// failuresOf returns why paths of a join failed, by id.
func (s *script) failuresOf(ctx context.Context, st *thread.State) (map[string]thread.PathFailure, error) {
	d, err := s.nodes.Detail(ctx, st.Detail)
	if err != nil || d == nil {
		return nil, err
	}
	by := map[string]thread.PathFailure{}
	for _, f := range d.Failures {
		by[f.Path] = f
	}
	return by, nil
}

// At returns what happened to a thread at its head when it was recorded, once. See engine.Player.
func (p *Player) At(ctx context.Context, row store.Thread) (thread.Cue, error) {
	name, err := p.Where(ctx, row)
	if err != nil {
		return thread.Cue{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := spot{name, row.Steps}
	cue := p.script.cues[at]
	delete(p.script.cues, at)
	return cue, nil
}

// Joined returns how the join that a thread waits for was decided, nil if that is not recorded. See engine.Player.
func (p *Player) Joined(ctx context.Context, row store.Thread) (*thread.Verdict, error) {
	name, err := p.Where(ctx, row)
	return p.script.verdicts[spot{name, row.Steps}], err
}
