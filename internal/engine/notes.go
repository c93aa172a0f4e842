package engine

import (
	"context"
	"errors"

	"github.com/plait-run/plait/internal/thread"
)

// notes puts into a prompt what people noted and what every agent is handed. A session
// that is gone on with knows the notes that it was told; files it is handed each time,
// since the context directory is emptied.
func (e *Engine) notes(ctx context.Context, c *cursor, p *prepared, ask *thread.Prompt) error {
	if e.cfg.Notes != nil {
		after := ""
		if !ask.Since.IsZero() {
			after = c.sessions[p.row.Role].told
		}
		notes, err := e.cfg.Notes(ctx, c.row, after)
		if err != nil {
			return err
		}
		ask.Notes = notes
	}
	if e.cfg.Attached != nil {
		p.handed = e.cfg.Attached(c.row)
	}
	for _, a := range p.handed {
		ask.Notes = append(ask.Notes, a.Line)
	}
	return nil
}

// handOver puts the files that a prompt speaks of where the agent can read them.
func (p *prepared) handOver(desk Desk) error {
	var err error
	for _, a := range p.handed {
		if a.Name != "" && desk.Agent().Context != "" {
			err = errors.Join(err, desk.Keep(a.Name, a.Data))
		}
	}
	return err
}
