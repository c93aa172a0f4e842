package attempt

import (
	"context"
	"errors"

	"github.com/plait-run/plait/internal/thread"
)

// addNotes puts into a prompt what people noted and what every agent is handed. A session
// that is gone on with knows the notes that it was told; files it is handed each time,
// since the context directory is emptied.
func (e *Runner) addNotes(ctx context.Context, c *Thread, p *Prepared, ask *thread.Prompt) error {
	after := ""
	if !ask.Since.IsZero() {
		after = c.sessions[p.Row.Role].told
	}
	var err error
	if ask.Notes, err = e.Notes(ctx, c.Row.Task, after); err != nil {
		return err
	}
	p.attachments = e.cfg.Desks.Attached(c.Row)
	for _, a := range p.attachments {
		ask.Notes = append(ask.Notes, a.Line)
	}
	return nil
}

// exportAttachments puts the files that a prompt speaks of where the agent can read them.
func (p *Prepared) exportAttachments(desk Desk) error {
	var err error
	for _, a := range p.attachments {
		if a.Name != "" && desk.Agent().Context != "" {
			err = errors.Join(err, desk.Keep(a.Name, a.Data))
		}
	}
	return err
}
