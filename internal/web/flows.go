package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/config"
	"github.com/plait-run/plait/internal/control"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/view"
)

// found looks a flow up as plait run does, but for paths: what a URL or a body says is never a
// path of a file.
func (s *Server) found(ctx context.Context, name string) (control.Found, error) {
	if ext := path.Ext(name); !flow.IsName(name) || ext == ".yaml" || ext == ".yml" {
		return control.Found{}, notFound("there is no flow %q", name)
	}
	f, err := s.cfg.Control.Find(ctx, s.cfg.Workspace, name)
	var invalid *flow.InvalidError
	if errors.As(err, &invalid) {
		err = conflict("%v", err)
	}
	return f, err
}

// A flowLine is a flow in a list.
type flowLine struct {
	Name, Description string
	Hash              dag.Hash // of one in the registry
	Timestamp         int64    // ms
	Earlier           int      // versions
}

func (s *Server) flowsPage(w http.ResponseWriter, r *http.Request) error {
	rows, err := s.views.Flows(r.Context())
	if err != nil {
		return err
	}
	var body struct{ Kept, Project, BuiltIn []flowLine }
	for _, row := range rows {
		body.Kept = append(body.Kept, flowLine{row.Name, row.Description, row.Hash, row.Timestamp, len(row.History)})
	}
	for _, name := range projectFlows(s.cfg.Workspace) {
		body.Project = append(body.Project, flowLine{Name: name})
	}
	for _, name := range flow.BuiltIns() {
		if d, ok := flow.BuiltIn(name); ok {
			body.BuiltIn = append(body.BuiltIn, flowLine{Name: name, Description: d.Description})
		}
	}
	return s.show(w, r, http.StatusOK, "flows", page{Title: "Flows", Nav: "flows", Follow: "-", Body: body})
}

// projectFlows are the names of the flows in a workspace that can be asked for.
func projectFlows(workspace string) []string {
	names := map[string]bool{}
	for _, dir := range []string{".plait/flows", ".workflows"} {
		for _, form := range []string{"*.yaml", "*.yml", "*/index.yaml"} {
			files, _ := fs.Glob(os.DirFS(workspace), path.Join(dir, form)) // the forms are good ones
			for _, f := range files {
				name := strings.TrimSuffix(path.Base(f), path.Ext(f))
				if form == "*/index.yaml" {
					name = path.Base(path.Dir(f))
				}
				if flow.IsName(name) {
					names[name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// A shownFlow is one flow of a bundle on its page.
type shownFlow struct {
	Name, Description string
	Graph             drawing
	Roles             []shownRole
	Source            string // JSON
}

// A shownRole is a role and who does it.
type shownRole struct {
	Name, By string
	Calls    string // the flow that does it
	flow.Role
}

func (s *Server) flowPage(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	f, err := s.found(r.Context(), name)
	if err != nil {
		return err
	}
	v, err := s.views.Flow(r.Context(), name, f.Bundle, f.Object.Hash)
	if err != nil {
		return err
	}
	var body struct {
		V      *view.Flow
		Asked  string // by which name it was asked for
		Flows  []shownFlow
		Files  []shownFile
		Warned []flow.Problem
	}
	body.V, body.Asked, body.Warned = v, name, f.Problems
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
		one := shownFlow{Name: g.Flow, Description: d.Description, Source: string(raw)}
		for _, role := range slices.Sorted(maps.Keys(d.Roles)) {
			one.Roles = append(one.Roles, shownRole{role, view.DoneBy(d.Roles[role]), d.Roles[role].Flow, d.Roles[role]})
		}
		one.Graph = draw(g, func(n view.GraphNode) string {
			switch n.Kind {
			case view.NodeCall:
				return "#flow-" + n.Flow
			case view.NodeRole, view.NodePlan, view.NodeChat:
				return "#role-" + g.Flow + "-" + n.ID
			}
			return ""
		})
		body.Flows = append(body.Flows, one)
	}
	for _, file := range slices.Sorted(maps.Keys(f.Files)) {
		body.Files = append(body.Files, shownFile{file, string(bytes.ToValidUTF8(f.Files[file], []byte("\ufffd")))})
	}
	return s.show(w, r, http.StatusOK, "flow", page{
		Title: name, Nav: "flows", Follow: "-", Body: body, Crumbs: []crumb{{"Flows", "/flows"}, {name, ""}},
	})
}

// A shownFile is a file that a flow was read from.
type shownFile struct{ Name, Text string }

func (s *Server) showFlow(w http.ResponseWriter, r *http.Request) error {
	f, err := s.found(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	v, err := s.views.Flow(r.Context(), r.PathValue("name"), f.Bundle, f.Object.Hash)
	if err != nil {
		return err
	}
	return answer(w, "flow.show", v)
}

func (s *Server) showFlowGraph(w http.ResponseWriter, r *http.Request) error {
	f, err := s.found(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	graphs, err := view.BundleGraphs(f.Bundle)
	if err != nil {
		return err
	}
	return answer(w, "flow.graph", map[string]any{"graphs": graphs})
}

// beginTask begins a task as plait run does, and lets it go on here.
func (s *Server) beginTask(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Flow   string `json:"flow"`
		Prompt string `json:"prompt"`
		Agent  string `json:"agent"`
	}
	if err := said(r, &body); err != nil {
		return err
	}
	if strings.TrimSpace(body.Prompt) == "" {
		return badRequest("say what is to be done: the prompt is empty")
	}
	ctx := context.WithoutCancel(r.Context()) // what was begun is there whole
	f, err := s.found(ctx, body.Flow)
	if err != nil {
		return err
	}
	if s.cfg.Consent != nil {
		if err := s.cfg.Consent(f); err != nil {
			return conflict("%v", err)
		}
	}
	if _, err := config.Init(s.cfg.Workspace, s.cfg.Home); err != nil {
		return conflict("%v", err)
	}
	opts := control.Options{Agent: body.Agent}
	if s.cfg.Offline != nil {
		opts.Offline = s.cfg.Offline(f.Bundle.Name)
	}
	row, err := s.cfg.Control.Begin(ctx, control.Spec{Bundle: f.Bundle, Prompt: body.Prompt, Workspace: s.cfg.Workspace,
		Options: opts})
	if err != nil {
		return err
	}
	if err := s.work.drive(row, control.Resume{}); err != nil {
		return notStarted(row, err)
	}
	return answer(w, "run", stands(row, "begins"))
}
