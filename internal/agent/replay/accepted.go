package replay

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/plait-run/plait/internal/record/store"
)

// Accepted reports whether the recorded step of a role at a visit is an answer with this meta and text.
// See attempt.Player.
func (p *Player) Accepted(ctx context.Context, row store.Thread, role string, visit int, meta json.RawMessage,
	text string) (bool, error) {
	name, err := p.Where(ctx, row)
	if err != nil {
		return false, err
	}
	for _, t := range p.script.takes[scene{name, role, visit}] {
		if !bytes.Equal(t.State.Meta, meta) {
			continue
		}
		said, err := p.cfg.Nodes.Text(ctx, t.State.Content)
		if err != nil || said == text {
			return err == nil, err
		}
	}
	return false, nil
}
