package view

import (
	"context"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// Calls are the requests of a step's agent to its model, in order, with those of failed attempts
// first.
type Calls struct {
	Step  dag.Hash `json:"step"`
	N     int      `json:"n"` // along the chain
	Role  string   `json:"role"`
	Calls []Call   `json:"calls"`
}

// A Call is one request to a model.
type Call struct {
	N         int         `json:"n"` // within the step, from 1
	Attempt   string      `json:"attempt"`
	At        int64       `json:"at"` // Unix ms
	Lane      string      `json:"lane"`
	Method    string      `json:"method"`
	Path      string      `json:"path"`
	Model     string      `json:"model"`
	Status    int         `json:"status"` // 0: no reply
	Cut       bool        `json:"cut"`
	Usage     store.Usage `json:"usage"`
	Estimated bool        `json:"estimated"`
	// Set if a single call was requested: its request and reply, byte for byte.
	Request  *string `json:"request,omitempty"`
	Response *string `json:"response,omitempty"`
}

// ErrNoCalls is the error for a step whose calls were not recorded.
var ErrNoCalls = errors.New("has no recorded calls")

// Calls reads the model calls of a step of the chain at head; step names it as in
// [Reader.Prompt]. If one is at least 1, it reads that call alone, with its request and
// reply. It returns ErrNoCalls if the step has no recorded calls.
func (b *Reader) Calls(ctx context.Context, head dag.Hash, step string, one int) (*Calls, error) {
	r := b.Nodes
	s, n, err := r.Find(ctx, head, step)
	if err != nil {
		return nil, err
	}
	v := &Calls{Step: s.Hash, N: n, Calls: []Call{}}
	var attempts []thread.EarlierAttempt
	if s.State != nil && !s.State.Detail.IsZero() {
		d, err := r.Detail(ctx, s.State.Detail)
		if err != nil {
			return nil, err
		}
		v.Role, attempts = s.State.Role, append(d.Attempts, thread.EarlierAttempt{ID: d.Attempt, Calls: d.Calls})
	}
	count := 0
	for _, a := range attempts {
		if a.Calls.IsZero() {
			continue
		}
		calls, err := r.ModelCalls(ctx, a.Calls)
		if err != nil {
			return nil, err
		}
		if one == 0 {
			for _, c := range calls {
				count++
				v.Calls = append(v.Calls, callOf(count, a.ID, *c))
			}
			continue
		}
		if count += len(calls); one > count || len(v.Calls) > 0 {
			continue
		}
		at := count - len(calls)
		for x, err := range r.Exchanges(ctx, a.Calls) {
			if err != nil {
				return nil, err
			}
			if at++; at == one {
				c, asked, said := callOf(at, a.ID, x.ModelCall), string(x.Body), string(x.Reply)
				c.Request, c.Response = &asked, &said
				v.Calls = append(v.Calls, c)
				break
			}
		}
	}
	switch {
	case count == 0:
		return nil, fmt.Errorf("step %d %w", n, ErrNoCalls)
	case one > count:
		return nil, fmt.Errorf("step %d has %d calls: %w", n, count, store.ErrNotFound)
	}
	return v, nil
}

func callOf(n int, attempt string, c thread.ModelCall) Call {
	return Call{N: n, Attempt: attempt, At: c.At, Lane: c.Lane, Method: c.Method, Path: c.Path, Model: c.Model,
		Status: c.Status, Cut: c.Cut, Usage: c.Usage, Estimated: c.Estimated}
}
