package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

func (s *Server) flowsPage(w http.ResponseWriter, r *http.Request) error {
	known, err := s.knownFlows(r.Context())
	if err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, "flows", page{Title: "Flows", Nav: "flows", Follow: "-", Body: grouped(known)})
}

// A shownFlow is one flow of a bundle on its page.
type shownFlow struct {
	Name, Description string
	Graph             drawing
	Roles             []shownRole
	Gates             []shownGate
	Source            string // JSON
}

// A shownRole is a role and its agent.
type shownRole struct {
	Name   string
	By     string // the name or kind of an agent, "" for the default agent
	Script string // the program that performs it
	flow.Role
}

// A shownGate is a place where a person is asked.
type shownGate struct {
	Name, Kind, Question string
}

// shownRoles returns the roles of a flow, in the order in which they can be reached.
func shownRoles(d *flow.Definition, g *view.Graph) []shownRole {
	var out []shownRole
	for _, name := range g.Reached() {
		role, ok := d.Roles[name]
		if !ok {
			continue
		}
		one := shownRole{Name: name, Role: role}
		switch a := role.Agent; {
		case a == nil:
		case a.Inline == nil:
			one.By = a.Name
		default:
			one.By = a.Inline.Kind
			if len(a.Inline.Command) > 0 {
				one.By, one.Script = "a program", text.Command(a.Inline.Command)
			}
		}
		out = append(out, one)
	}
	return out
}

// A flowBody is the page of a flow.
type flowBody struct {
	V      *view.Flow
	Asked  string // the requested name
	Flows  []shownFlow
	Files  []shownFile
	Warned []flow.Problem
	Wrong  []flow.Problem // errors that keep it from running
}

func (s *Server) flowPage(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	p := page{Title: name, Nav: "flows", Follow: "-", Crumbs: []crumb{{"Flows", "/flows"}, {name, ""}}}
	f, err := s.findFlow(r.Context(), name)
	var invalid *flow.InvalidError
	if errors.As(err, &invalid) {
		wrong := slices.Clone(invalid.Problems)
		for i := range wrong {
			wrong[i].File = s.shortFile(wrong[i].File)
		}
		p.Body = flowBody{Asked: name, Wrong: wrong}
		return s.show(w, r, http.StatusConflict, "flow", p)
	}
	if err != nil {
		return err
	}
	v, err := s.views.Flow(r.Context(), name, f.Bundle, f.Object.Hash)
	if err != nil {
		return err
	}
	body := flowBody{V: v, Asked: name, Warned: f.Problems}
	graphs, err := view.BundleGraphs(f.Bundle)
	if err != nil {
		return err
	}
	for _, g := range graphs {
		var d flow.Definition
		raw := f.Bundle.Flows[g.Flow]
		if err := json.Unmarshal(raw, &d); err != nil {
			return err
		}
		one := shownFlow{Name: g.Flow, Description: d.Description, Source: string(raw), Roles: shownRoles(&d, g)}
		for _, name := range slices.Sorted(maps.Keys(d.Gates)) {
			one.Gates = append(one.Gates, shownGate{name, d.Gates[name].Kind, d.Gates[name].Question})
		}
		one.Graph = draw(g, func(n view.GraphNode) string {
			switch n.Kind {
			case view.NodeCall:
				return "#flow-" + n.Flow
			case view.NodeRole, view.NodePlan, view.NodeChat, view.NodeGate:
				return "#role-" + g.Flow + "-" + n.ID
			}
			return ""
		})
		body.Flows = append(body.Flows, one)
	}
	for _, file := range slices.Sorted(maps.Keys(f.Files)) {
		text := bytes.ToValidUTF8(f.Files[file], []byte("\ufffd"))
		body.Files = append(body.Files, shownFile{s.shortFile(file), string(text)})
	}
	p.Body = body
	return s.show(w, r, http.StatusOK, "flow", p)
}

// shortFile returns a file's path relative to the workspace.
func (s *Server) shortFile(file string) string {
	if rel, err := filepath.Rel(s.cfg.Workspace, file); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return file
}

// A shownFile is a source file of a flow.
type shownFile struct{ Name, Text string }
