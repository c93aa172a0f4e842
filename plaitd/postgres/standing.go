package postgres

import (
	"context"
	"fmt"
)

// Schema returns the version of a database's schema, 0 for none, and the one that Migrate would bring it to. It
// changes nothing. ErrNewer when a newer Plait has been there.
func Schema(ctx context.Context, cfg Config) (found, now int, err error) {
	c, err := connect(ctx, cfg.URL, nil)
	if err != nil {
		return 0, 0, fmt.Errorf("read schema: %w", err)
	}
	defer c.Close(context.WithoutCancel(ctx))
	if found, err = version(ctx, c); err != nil {
		return found, len(migrations), fmt.Errorf("read schema: %w", err)
	}
	return found, len(migrations), nil
}
