package web

import (
	"context"
	"errors"
	"slices"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// A flowLine is a flow in a list.
type flowLine struct {
	Name, Description string
	From              string   // where it was found
	Problems          int      // errors in its file that keep it from running
	Hash              dag.Hash // of the bundle, if known
	Timestamp         int64    // ms, of a flow in the registry
	Earlier           int      // number of earlier versions
}

// A flowGroup is the flows from one source.
type flowGroup struct {
	Name  string
	Flows []flowLine
}

// grouped groups flows by source, in order of precedence.
func grouped(known []flowLine) []flowGroup {
	out := []flowGroup{{Name: fromProject}, {Name: fromRegistry}, {Name: fromPlait}}
	for i := range out {
		for _, l := range known {
			if l.From == out[i].Name {
				out[i].Flows = append(out[i].Flows, l)
			}
		}
	}
	return slices.DeleteFunc(out, func(g flowGroup) bool { return len(g.Flows) == 0 })
}

// flowSources maps control's names of sources to the ones shown.
var flowSources = map[string]string{control.FromProject: fromProject, control.FromRegistry: fromRegistry,
	control.FromBuiltIn: fromPlait}

// knownFlows lists the flows that can be started by name, without duplicates.
func (s *Server) knownFlows(ctx context.Context) ([]flowLine, error) {
	known, err := s.cfg.Control.Flows(ctx, s.cfg.Workspace)
	if err != nil {
		return nil, err
	}
	rows, err := s.views.Flows(ctx)
	if err != nil {
		return nil, err
	}
	var out []flowLine
	for _, k := range known {
		line := flowLine{Name: k.Name, Description: k.Description, From: flowSources[k.Source]}
		switch k.Source {
		case control.FromProject:
			f, err := s.cfg.Control.Find(ctx, s.cfg.Workspace, k.Name)
			var invalid *flow.InvalidError
			switch {
			case !flow.IsName(k.Name): // it cannot be started by name
				continue
			case errors.As(err, &invalid):
				line.Problems = len(invalid.Problems)
			case errors.Is(err, store.ErrNotFound): // removed in the meantime
				continue
			case err != nil:
				line.Problems = 1
			default:
				line.Hash = f.Object.Hash
			}
		case control.FromRegistry:
			if i := slices.IndexFunc(rows, func(row view.FlowRow) bool { return row.Name == k.Name }); i >= 0 {
				line.Hash, line.Timestamp, line.Earlier = rows[i].Hash, rows[i].Timestamp, len(rows[i].History)
			}
		}
		out = append(out, line)
	}
	return out, nil
}

// Sources of flows, as shown to users.
const (
	fromProject  = "This project"
	fromRegistry = "Registered"
	fromPlait    = "Built in"
)
