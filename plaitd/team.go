package main

import (
	"context"

	"github.com/plait-run/plait/internal/cli"
	"github.com/plait-run/plait/internal/dispatch/local"
)

// team is what workers of the record need.
func (p place) team() *cli.Team {
	return &cli.Team{Engines: []string{"local"}, Open: p.engine}
}

// engine opens the engine that all workers of the record share.
func (p place) engine(_ context.Context, o cli.EngineOptions) (cli.Engine, error) {
	return alone{local.New(local.Config{})}, nil
}

// alone is an engine that holds nothing.
type alone struct{ *local.Engine }

func (alone) Close() error { return nil }
