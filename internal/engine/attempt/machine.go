package attempt

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/plait-run/plait/internal/agent"
)

// blameMachine makes a failure the machine's if the machine cannot work now: on a full disk an agent may fail in any
// way.
func (r *run) blameMachine(ctx context.Context, fail *agent.Failure) {
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

// blameLimit adds to a failure which of its limits the agent has used up, if any: then its machine is not at fault.
func blameLimit(fail *agent.Failure, spent string) {
	if spent != "" && fail.Kind == agent.Infra {
		fail.Message, fail.Machine = spent+": "+fail.Message, false
	}
}

// NoRoom reports whether an error is due to a full disk, which may have room again by now.
func NoRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
