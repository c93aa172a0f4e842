// Package briefing says what an agent is told and given for one attempt: its part of the prompt, and the files in its
// context directory.
//
// Brief fills in the parts of a prompt that do not depend on the conversation, and returns what the attempt is given to
// read; Export puts that, and the parts of the record that the prompt names, into the context directory.
//
// Laws:
//
//   - What people wrote is quoted: it cannot pass for a part of the prompt.
//   - Instructions of a project are those of when its task began. What agents write later does not count.
//   - An agent can read what its prompt names. Anything beyond is bounded in size.
//
// The package writes only into context directories, and below its home. It follows no link out of a working tree, runs
// no agent, and decides nothing about the thread.
package briefing

import (
	"context"
	"path"
	"path/filepath"
	"sync"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/evidence"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
)

// Config configures a Briefer.
type Config struct {
	Store interface {
		store.Objects
		store.Index
		store.Journal
	}
	Record   *record.Reader
	Gates    *gate.Service
	Evidence *evidence.Collector
	Home     string // instructions are kept below it, "": nowhere
	Desks    interface {
		// Attached returns the files that every agent of a task receives.
		Attached(row store.Thread) []agent.Attachment
	}
}

// A Briefer briefs attempts. Methods may be called concurrently, for different threads.
type Briefer struct {
	cfg   Config
	notes noteBook

	mu       sync.Mutex
	projects map[string]projectInstructions // by task
}

// New returns a briefer; it touches nothing.
func New(cfg Config) *Briefer {
	return &Briefer{cfg: cfg, projects: make(map[string]projectInstructions)}
}

// An Attempt is who is briefed, and for what.
type Attempt struct {
	At       *record.Position
	Name     string // of the role
	Role     flow.Role
	Agent    agent.Agent
	Shaped   bool      // see agent.Request.Shaped
	Location string    // of the agent in the tree, with slashes
	Dir      string    // its working directory, below that
	Branches bool      // its session branches off one that holds the conversation
	Since    string    // the attempt whose prompt had the earlier notes, or ""
	Planner  *Planning // nil: it does not plan
}

// Given is what an attempt is given to read.
type Given struct {
	instruction string // what to do now: the part of the prompt that no other step has
	attachments []agent.Attachment
	inputs      []input
	results     []input // of the actions that a planner planned
}

// Brief fills in what an attempt is told: everything but the conversation and the task.
func (b *Briefer) Brief(ctx context.Context, a Attempt, draft *prompt.Draft) (given Given, err error) {
	draft.Contract, draft.Role = Contract(a.Role, a.Shaped), Describe(a.Name, a.Role)
	if a.Planner != nil {
		if given.results, err = b.tellPlanner(ctx, a, draft); err != nil {
			return given, err
		}
	}
	if draft.Notes, err = b.Notes(ctx, a.At.Row.Task, a.Since); err != nil {
		return given, err
	}
	given.attachments = b.cfg.Desks.Attached(a.At.Row)
	for _, file := range given.attachments {
		draft.Notes = append(draft.Notes, file.Line)
	}
	if given.inputs, err = b.inputs(ctx, a.At); err != nil {
		return given, err
	}
	if draft.Inputs, err = b.inputsText(ctx, a, &given); err != nil {
		return given, err
	}
	if err := b.instruct(ctx, a, draft); err != nil {
		return given, err
	}
	given.instruction = draft.Route
	draft.Questions, err = b.questions(ctx, a.At)
	return given, err
}

// tellPlanner tells a planner which agents it may use, the outcomes of its actions and of their files, and what is left
// of its limits. It returns the files that have the outcomes.
func (b *Briefer) tellPlanner(ctx context.Context, a Attempt, draft *prompt.Draft) ([]input, error) {
	last, err := b.results(ctx, a.At)
	if err != nil {
		return nil, err
	}
	merged, err := b.merged(ctx, a.At)
	if err != nil {
		return nil, err
	}
	draft.Role += a.Planner.agents()
	draft.Route = last.text + merged + a.Planner.limits() + draft.Route
	draft.InRoute = last.join
	return last.files, nil
}

// instruct adds the instructions of the project and the user to the prompt of an agent that follows them, and where
// files are.
func (b *Briefer) instruct(ctx context.Context, a Attempt, draft *prompt.Draft) error {
	project, err := b.instructions(ctx, a.At.Row)
	if err != nil {
		return err
	}
	follows, ok := a.Agent.(agent.Instructed)
	if !ok {
		return nil
	}
	draft.Desk = filesSection
	if text := follows.Instructions(); text != "" {
		draft.Instructions = append(draft.Instructions, prompt.Instructions{Name: "the user's own", Text: text})
	}
	at := path.Join(filepath.ToSlash(a.Location), a.Dir)
	own := ""
	if s, ok := a.Agent.(agent.SelfInstructed); ok {
		own = s.InstructionFile()
	}
	draft.Instructions = append(draft.Instructions, project.of(at, own)...)
	return nil
}

// questions returns the questions asked at the gates of a task, by the step before the answer. It returns nothing if
// all steps of the thread are known to be of roles.
func (b *Briefer) questions(ctx context.Context, at *record.Position) (map[dag.Hash]string, error) {
	passed := len(at.Def.Gates) > 0 || at.Def.ActionID() != ""
	for role := range at.Visits { // an earlier flow may have had gates
		_, known := at.Def.Role(role)
		passed = passed || !known
	}
	if !passed {
		return nil, nil
	}
	gates, err := b.cfg.Gates.Gates(ctx, store.GateFilter{Task: at.Row.Task})
	if err != nil {
		return nil, err
	}
	asked := make(map[dag.Hash]string, len(gates))
	for _, g := range gates {
		if g.Source == store.SourceFlow || g.Source == store.SourceWorker {
			asked[g.From] = g.Question
		}
	}
	return asked, nil
}
