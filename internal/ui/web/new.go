package web

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/view"
)

// A beginning is a request to start a task.
type beginning struct {
	Flow     string `json:"flow"`
	Prompt   string `json:"prompt"`
	Agent    string `json:"agent"`
	Set      string `json:"set"` // ROLE.agent=NAME, separated as limits are
	Approve  string `json:"approve"`
	Merge    string `json:"merge"`
	Limits   string `json:"limits"`   // NAME=VALUE, separated by spaces, commas, semicolons or newlines
	Record   bool   `json:"record"`   // record model traffic
	Worktree string `json:"worktree"` // one of this repository's worktrees; "": the workspace
	Check    bool   `json:"check"`    // validate only
}

// A preparedTask can be started.
type preparedTask struct {
	found control.Found
	spec  control.Spec
}

// prepare validates a request to start a task. It has no side effects.
func (s *Server) prepare(ctx context.Context, b beginning) (preparedTask, error) {
	var p preparedTask
	if strings.TrimSpace(b.Prompt) == "" && !b.Check {
		return p, badRequest("the prompt is empty: say what the task is")
	}
	var err error
	if p.found, err = s.findFlow(ctx, b.Flow); err != nil {
		return p, err
	}
	for _, of := range []struct {
		name, value string
		values      []string
	}{
		{"approve", b.Approve, []string{"", "ask", "never", "sandboxed"}},
		{"merge", b.Merge, []string{"", control.MergeAuto, control.MergeAsk, control.MergeKeep}},
	} {
		if !slices.Contains(of.values, of.value) {
			return p, badRequest("invalid value %q for %s: use %s", of.value, of.name, strings.Join(of.values[1:], ", "))
		}
	}
	if b.Check && b.Agent != "" && !slices.Contains(s.cfg.Agents, b.Agent) { // otherwise Begin reports it
		return p, badRequest("no agent is called %q: use %s", b.Agent, strings.Join(s.cfg.Agents, ", "))
	}
	limits, err := parse.ParseLimits(pairs(b.Limits))
	if err != nil {
		return p, badRequest("limits: %s", err)
	}
	roles, err := parse.ParseAgents(pairs(b.Set))
	if err != nil {
		return p, badRequest("%s", err)
	}
	if b.Worktree != "" && !slices.Contains(worktrees(s.cfg.Workspace), b.Worktree) {
		return p, badRequest("%q is not a git worktree of this repository", b.Worktree)
	}
	p.spec = control.Spec{Bundle: p.found.Bundle, Prompt: b.Prompt, Workspace: s.cfg.Workspace, Tree: b.Worktree,
		Options: control.Options{Agent: b.Agent, Roles: roles, Approve: b.Approve, Merge: b.Merge, Limits: limits,
			Record: b.Record}}
	if s.cfg.Offline != nil {
		p.spec.Options.Offline = s.cfg.Offline(p.found.Bundle.Name)
	}
	return p, nil
}

// pairs splits NAME=VALUE pairs.
func pairs(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,;\t\r\n", r) })
}

// beginTask starts a task as plait run does, and drives it here; with check it only validates the
// request.
func (s *Server) beginTask(r *http.Request) (any, error) {
	var body beginning
	if err := decodeBody(r, &body); err != nil {
		return nil, err
	}
	ctx := context.WithoutCancel(r.Context()) // a task that is created is also recorded in full
	p, err := s.prepare(ctx, body)
	if err != nil {
		return nil, err
	}
	if body.Check {
		warned := []string{}
		for _, w := range p.found.Problems {
			warned = append(warned, w.Message)
		}
		note, err := s.cfg.Control.InTurn(ctx, p.spec.Bundle, cmp.Or(p.spec.Tree, p.spec.Workspace))
		if err != nil {
			return nil, conflict("%v", err)
		}
		if note != "" {
			warned = append(warned, note)
		}
		return view.NewEnvelope("run.check", map[string]any{"flow": p.found.Bundle.Name, "bundle": p.found.Object.Hash,
			"warnings": warned, "summary": strings.Join(append([]string{"This task can start."}, warned...), " ")}), nil
	}
	if s.cfg.Consent != nil {
		if err := s.cfg.Consent(p.found); err != nil {
			return nil, conflict("%v", err)
		}
	}
	return s.beginAndDrive(ctx, p.spec)
}

func (s *Server) beginAndDrive(ctx context.Context, spec control.Spec) (any, error) {
	if _, err := config.Init(s.cfg.Workspace, s.cfg.Home); err != nil {
		return nil, conflict("%v", err)
	}
	row, err := s.cfg.Control.Begin(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := s.work.drive(row, control.Resume{}); err != nil {
		return nil, notStarted(row, err)
	}
	return standingOf(row, "The task has started."), nil
}

// A newTask is the page for starting a task.
type newTask struct {
	Groups []flowGroup
	Flow   string // the selected one
	Prompt string
	Trees  []string // worktrees to choose from
}

// newPage shows the form for a new task. The query can fill in flow and prompt.
func (s *Server) newPage(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.ReadOnly {
		return &problem{http.StatusForbidden, "read_only", "this server only shows; start plait ui without --read-only"}
	}
	known, err := s.knownFlows(r.Context())
	if err != nil {
		return err
	}
	q := r.URL.Query()
	known = slices.DeleteFunc(known, func(l flowLine) bool { // drop flows that only other flows start
		return l.From == fromPlait && l.Name == flow.WorkerFlow && q.Get("flow") != l.Name
	})
	body := newTask{Groups: grouped(known), Flow: cmp.Or(q.Get("flow"), "solo"), Prompt: q.Get("prompt"),
		Trees: worktrees(s.cfg.Workspace)}
	if !slices.ContainsFunc(known, func(l flowLine) bool { return l.Name == body.Flow }) {
		body.Groups = append([]flowGroup{{"Chosen", []flowLine{{Name: body.Flow}}}}, body.Groups...)
	}
	return s.show(w, r, http.StatusOK, "new", page{Title: "New task", Nav: "new", Follow: "-", Body: body,
		Crumbs: []crumb{{"Tasks", "/tasks"}, {"New task", ""}}})
}

// worktrees returns the other git worktrees of the repository at dir. A request can only name one
// of these, never any other path.
func worktrees(dir string) []string {
	var out []string
	notes, _ := filepath.Glob(filepath.Join(dir, ".git", "worktrees", "*", "gitdir")) // the pattern is valid
	for _, note := range notes {
		data, err := os.ReadFile(note)
		tree := filepath.Dir(strings.TrimSpace(string(data)))
		if err != nil || len(data) > 4096 || !filepath.IsAbs(tree) {
			continue
		}
		if info, err := os.Stat(tree); err == nil && info.IsDir() {
			out = append(out, tree)
		}
	}
	return out
}
