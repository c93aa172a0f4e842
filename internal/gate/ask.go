package gate

import (
	"context"

	"github.com/plait-run/plait/internal/store"
)

// Ask returns what stands for g already, see Standing, and opens it when nothing does.
func (b *Service) Ask(ctx context.Context, g store.Gate) (store.Gate, error) {
	standing, ok, err := b.Standing(ctx, g.Thread, g.From, g.Digest)
	if err != nil || ok {
		return standing, err
	}
	return b.Open(ctx, g)
}
