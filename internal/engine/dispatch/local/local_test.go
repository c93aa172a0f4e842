package local_test

import (
	"testing"
	"time"

	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/engine/dispatch/local"
	"github.com/plait-run/plait/internal/testing/dispatchtest"
)

type cluster struct{ engine *local.Engine }

func (c cluster) Engine(testing.TB) dispatch.Engine { return c.engine }
func (c cluster) Wipe(testing.TB)                   { c.engine.Forget() }

func TestEngine(t *testing.T) {
	dispatchtest.Run(t, func(t *testing.T, prefer time.Duration) dispatchtest.Cluster {
		return cluster{local.New(local.Config{Prefer: prefer, Again: 10 * time.Millisecond})}
	})
}
