package taskdir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// Files that are drawn for an instance's newest step.
const (
	finalFile = "final.json" // in artifacts: its output, and nothing else
	stepFile  = "step.json"  // how the step was made
)

// A Step is an instance's step.json. Large values are given by their hash; plait cas get prints
// them.
type Step struct {
	Instance   string            `json:"instance"`
	Role       string            `json:"role"`
	Thread     string            `json:"threadId"`
	Attempt    string            `json:"attempt"`
	Step       dag.Hash          `json:"step"`
	Status     string            `json:"status"`
	Summary    string            `json:"summary"`
	Content    dag.Hash          `json:"content"`
	Artifacts  []thread.Artifact `json:"artifacts"`
	Agent      string            `json:"agent"`
	Model      string            `json:"model"`
	Sandbox    string            `json:"sandbox"`
	Exit       *int              `json:"exit"`
	Usage      store.Usage       `json:"usage"`
	StartedAt  int64             `json:"startedAt"`
	EndedAt    int64             `json:"endedAt"`
	Transcript dag.Hash          `json:"transcript"`
	Stderr     dag.Hash          `json:"stderr"`

	final any // the content of final.json
}

// A Final is the final.json of a role that is not an action of a plan. An action's is its output
// as submitted, see docs/schemas/worker-output.schema.json.
type Final struct {
	Meta json.RawMessage `json:"meta"` // null if it is large
	Text *string         `json:"text"` // null if it is large: see the step's content
}

// Limits on what these files contain themselves, in bytes.
const (
	maxText    = 16 << 10
	maxSummary = 2000 // characters
)

// newestStep is the newest step of an instance.
type newestStep struct {
	attempt string
	step    dag.Hash
}

// instances is the state of drawing instances.
type instances struct {
	steps map[string]newestStep // by instance
	dirty map[string]bool       // instances with new events
}

// add records an event of the task.
func (p *instances) add(ev store.Event) {
	switch said := event.Read(ev).(type) {
	case event.AttemptCompleted:
		if !said.Step.IsZero() {
			if p.steps == nil {
				p.steps = make(map[string]newestStep)
			}
			p.steps[ev.Instance] = newestStep{ev.Attempt, said.Step}
		}
	case event.AttemptFailed:
	default:
		return
	}
	if p.dirty == nil {
		p.dirty = make(map[string]bool)
	}
	p.dirty[ev.Instance] = true
}

// draw draws the files of instances: of all the first time, then of those with new events.
func (p *instances) draw(ctx context.Context, d drawing) error {
	tried := make(map[string][]store.Attempt)
	for _, a := range d.record.Attempts {
		if d.all || p.dirty[a.Instance] {
			tried[a.Instance] = append(tried[a.Instance], a)
		}
	}
	var err error
	for name, attempts := range tried {
		if one := d.instance(ctx, view.NewestAttempt(attempts), p.steps[name]); one != nil {
			err = errors.Join(err, fmt.Errorf("instance %s: %w", name, one))
		}
	}
	p.dirty = nil
	return err
}

// instance draws final.json, step.json and session.json of an instance, given its last attempt, unless one of its
// attempts is running.
func (d drawing) instance(ctx context.Context, last store.Attempt, step newestStep) error {
	if !isInstance(last.Instance) {
		return nil // not a name that Plait assigns
	}
	name := filepath.Join("agents", last.Instance)
	if err := makeDir(d.root, filepath.Join(name, "artifacts")); err != nil {
		return err
	}
	desk, err := d.root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer desk.Close()
	// The directory is opened before checking whether a later attempt has begun. If none has, it
	// belongs to the attempt that ended, and still will: a later attempt makes a new one.
	artifacts, err := desk.OpenRoot("artifacts")
	if err != nil {
		return err
	}
	defer artifacts.Close()
	unlock, ok := lockDesk(desk, 0)
	if !ok {
		return nil // its attempt is just beginning or ending
	}
	defer unlock()
	running, err := d.store.Attempts(ctx, store.AttemptFilter{Thread: last.Thread, Status: store.AttemptRunning})
	if err != nil {
		return err
	}
	for _, a := range running {
		if a.Instance == last.Instance {
			return nil
		}
	}
	row, sandbox := d.record.Thread(last.Thread), ""
	if !step.step.IsZero() && last.ID == step.attempt {
		f, err := readStep(ctx, d.nodes, row, last, step.step)
		if err == nil {
			sandbox = f.Sandbox
			err = errors.Join(drawFinal(artifacts, f), drawJSON(desk, stepFile, f))
		}
		if err != nil {
			return err
		}
	}
	return drawSession(desk, row, last, sandbox)
}

// readStep reads the output of a step.
func readStep(
	ctx context.Context, nodes *thread.Reader, row store.Thread, a store.Attempt, step dag.Hash,
) (Step, error) {
	s, err := nodes.State(ctx, step)
	if err != nil {
		return Step{}, err
	}
	c, err := nodes.Content(ctx, s.Content)
	if err != nil {
		return Step{}, err
	}
	d, err := nodes.Detail(ctx, s.Detail)
	if err != nil {
		return Step{}, err
	}
	if d == nil {
		d = &thread.Detail{}
	}
	f := Step{
		Instance: a.Instance, Role: s.Role, Thread: a.Thread, Attempt: a.ID, Step: step, Content: s.Content,
		Agent: a.Agent, Model: d.Model, Sandbox: d.Sandbox, Exit: d.Exit, Usage: d.Usage, StartedAt: a.StartedAt,
		EndedAt:    a.EndedAt,
		Transcript: a.Transcript, Stderr: a.Stderr, Artifacts: []thread.Artifact{}, final: s.Meta,
	}
	var meta struct {
		Status  string `json:"$status"`
		Summary string `json:"summary"`
	}
	json.Unmarshal(s.Meta, &meta) // a summary that is not a text is ignored
	f.Status, f.Summary = meta.Status, text.Shorten(meta.Summary, maxSummary+1)
	if f.Summary == "" {
		f.Summary = text.Shorten(strings.TrimSpace(c.Text), maxSummary+1)
	}
	if acts := row.Path != nil && row.Path.Join == thread.RoleJoin && row.Path.ID == s.Role; acts {
		f.final = returned(s.Meta, c.Text)
	} else {
		var out Final
		if len(s.Meta) <= maxText {
			out.Meta = s.Meta
		}
		if len(c.Text) <= maxText {
			out.Text = &c.Text
		}
		f.final = out
	}
	for _, h := range c.Artifacts {
		file, err := nodes.Artifact(ctx, h)
		if err != nil {
			return f, err
		}
		f.Artifacts = append(f.Artifacts, *file)
	}
	return f, nil
}

// returned returns what the agent of an action returned, given the meta and the text of its step. Meta
// has a $status in any case; the text is the answer if that is one JSON object, as it was written.
func returned(meta json.RawMessage, text string) json.RawMessage {
	var own, fields map[string]json.RawMessage
	json.Unmarshal([]byte(text), &own) // front matter has the field status in any case
	if _, said := own["$status"]; said || json.Unmarshal(meta, &fields) != nil {
		return meta
	}
	delete(fields, "$status")
	out, err := json.Marshal(fields)
	if err != nil {
		return meta
	}
	return out
}

// drawFinal draws final.json, unless the agent itself left a file of that name.
func drawFinal(artifacts *os.Root, f Step) error {
	for _, file := range f.Artifacts {
		if file.Name == finalFile {
			return nil
		}
	}
	err := drawJSON(artifacts, finalFile, f.final)
	if errors.Is(err, os.ErrNotExist) {
		return nil // a later attempt has replaced the directory
	}
	return err
}
