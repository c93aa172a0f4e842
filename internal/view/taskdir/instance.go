package taskdir

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
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
	Instance   string         `json:"instance"`
	Role       string         `json:"role"`
	Thread     string         `json:"threadId"`
	Attempt    string         `json:"attempt"`
	Step       dag.Hash       `json:"step"`
	Status     string         `json:"status"`
	Summary    string         `json:"summary"`
	Content    dag.Hash       `json:"content"`
	Artifacts  []StepArtifact `json:"artifacts"`
	Agent      string         `json:"agent"`
	Model      string         `json:"model"`
	Sandbox    string         `json:"sandbox"`
	Exit       *int           `json:"exit"`
	Usage      store.Usage    `json:"usage"`
	StartedAt  int64          `json:"startedAt"`
	EndedAt    int64          `json:"endedAt"`
	Transcript dag.Hash       `json:"transcript"`
	Stderr     dag.Hash       `json:"stderr"`

	final any // the content of final.json
}

// A Final is the final.json of a role that is not an action of a plan. An action's is its output
// as submitted, see docs/schemas/worker-output.schema.json.
type Final struct {
	Meta json.RawMessage `json:"meta"` // null if it is large
	Text *string         `json:"text"` // null if it is large: see the step's content
}

// A StepArtifact is a file that was kept.
type StepArtifact struct {
	Name      string   `json:"name"`
	MediaType string   `json:"mediaType"`
	Size      int64    `json:"size"`
	Blob      dag.Hash `json:"blob"`
}

// Limits on what these files contain themselves, in bytes.
const (
	maxText    = 16 << 10
	maxSummary = 2000 // characters
)

// drawInstance draws final.json, step.json and session.json of an instance, unless one of its
// attempts is running.
func (b *DirWriter) drawInstance(ctx context.Context, root *os.Root, row store.Thread, attempts []store.Attempt,
	step newestStep) error {
	last := view.NewestAttempt(attempts)
	if !isInstance(last.Instance) {
		return nil // not a name that Plait assigns
	}
	name := filepath.Join("agents", last.Instance)
	if err := makeDir(root, filepath.Join(name, "artifacts")); err != nil {
		return err
	}
	desk, err := root.OpenRoot(name)
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
	running, err := b.Store.Attempts(ctx, store.AttemptFilter{Thread: last.Thread, Status: store.AttemptRunning})
	if err != nil {
		return err
	}
	for _, a := range running {
		if a.Instance == last.Instance {
			return nil
		}
	}
	sandbox := ""
	if !step.step.IsZero() && last.ID == step.attempt {
		f, err := b.step(ctx, row, last, step.step)
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

// step reads the output of a step.
func (b *DirWriter) step(ctx context.Context, row store.Thread, a store.Attempt, step dag.Hash) (Step, error) {
	s, err := b.Reader.State(ctx, step)
	if err != nil {
		return Step{}, err
	}
	c, err := b.Reader.Content(ctx, s.Content)
	if err != nil {
		return Step{}, err
	}
	d, err := b.Reader.Detail(ctx, s.Detail)
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
		Transcript: a.Transcript, Stderr: a.Stderr, Artifacts: []StepArtifact{}, final: s.Meta,
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
		file, err := b.Reader.Artifact(ctx, h)
		if err != nil {
			return f, err
		}
		f.Artifacts = append(f.Artifacts, StepArtifact(*file))
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

// drawJSON draws v as indented JSON.
func drawJSON(root *os.Root, name string, v any) error {
	data, err := pretty(v)
	if err != nil {
		return err
	}
	return draw(root, name, data)
}

// pretty returns v as indented JSON.
func pretty(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return buf.Bytes(), err
}

// drawSession brings session.json up to date with the store. It keeps what only the desk can set.
func drawSession(desk *os.Root, row store.Thread, last store.Attempt, sandbox string) error {
	var s Session
	if data, _, err := readPlain(desk, sessionFile, maxView); err != nil || json.Unmarshal(data, &s) != nil {
		s = Session{} // it is a view, and can be drawn again
	}
	s.about(row, last.Instance)
	s.Adapter = last.Agent
	if sandbox != "" {
		s.Sandbox = sandbox
	}
	if last.Session != "" {
		s.Vendor = last.Session
	}
	return drawJSON(desk, sessionFile, s)
}

// lockDesk locks a desk's session.json for writing. It gives up after patience: agents can hold
// the lock, and must not block Plait.
func lockDesk(desk *os.Root, patience time.Duration) (unlock func(), ok bool) {
	dir, err := desk.Open(".")
	if err != nil {
		return func() {}, false
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return func() { dir.Close() }, true
		}
		if !time.Now().Before(end) {
			dir.Close()
			return func() {}, false
		}
	}
}
