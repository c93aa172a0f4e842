package attempt

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/plait-run/plait/internal/agent"
)

// unable returns the outcome of an attempt after an error that is not its agent's. Where another machine can do it, the
// attempt has failed and counts for nothing. Otherwise one whose agent had begun is unfinished: whoever drives the
// thread next asks what it has done.
func (r *run) unable(ctx context.Context, err error) (*Outcome, error) {
	others := r.e.cfg.Ready != nil
	if r.begun && (!others || ctx.Err() != nil) {
		return nil, err
	}
	fail := agent.OfMachine("%v", err)
	fail.Usage = r.spent
	out, stopErr := r.stop(ctx, fail)
	if stopErr != nil || !others {
		return nil, errors.Join(err, stopErr)
	}
	return out, nil
}

// blame makes a failure the machine's if the machine cannot work now: on a full disk an agent may fail in any way.
func (r *run) blame(ctx context.Context, fail *agent.Failure) {
	if r.e.cfg.Ready == nil || fail.Machine {
		return
	}
	switch fail.Kind {
	case agent.Infra, agent.InvalidOutput, agent.TimedOut:
	default:
		return
	}
	if why := r.e.cfg.Ready(ctx); why != nil {
		fail.Kind, fail.Machine, fail.Message = agent.Infra, true, fmt.Sprintf("%v: %s", why, fail.Message)
	}
}

// noRoom reports whether an error is due to a full disk, which may have room again by now.
func noRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// treeFailure returns the failure of an attempt whose working tree cannot be used. An agent can cause that; machine
// says that none did.
func treeFailure(ctx context.Context, err error, machine bool) *agent.Failure {
	if ctx.Err() != nil {
		return notBegun()
	}
	return &agent.Failure{Kind: agent.Infra, Message: err.Error(), Final: true, Machine: machine}
}
