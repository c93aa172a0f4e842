package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// A selection is the selected item of a task: a step, an attempt without a step, or a question.
type selection struct {
	Step    *view.WholeStep // or nil
	Attempt *store.Attempt  // or nil
	Gate    *view.Gate      // or nil

	Title       string
	State       view.DisplayState
	Outcome     string
	Short       string // the name of the step, as users type it
	Thread      string // the thread that a fork continues, "" if not known
	Task, By    string // the instance that made it
	Took, Agent string
	shownPrompt
	Agents []string // agents to choose from for the fork
	Output *output
	activity
	Here  address
	Read  bool
	whole bool // nothing is shortened
}

// A shownPrompt is an agent's prompt, possibly shortened for a page: the instruction, and what is said before it.
type shownPrompt struct {
	Prompt      *view.Prompt
	PromptText  string // what comes before the instruction
	Instruction string
	PromptCut   bool
}

// A joinedPath is a path of a join, with what came of it.
type joinedPath struct {
	thread.PathHead
	Said string
}

// maxJoined limits what is shown of what came of a path, in bytes.
const maxJoined = 1200

// joined returns the paths of a join.
func (s *Server) joined(ctx context.Context, step view.Step) (list []joinedPath, err error) {
	state, err := s.cfg.Reader.State(ctx, step.Hash)
	if err != nil {
		return nil, err
	}
	ends, _, err := record.NewSteps(s.cfg.Reader).PathEnds(ctx, state)
	for i, end := range ends {
		one := joinedPath{PathHead: step.Paths[i]}
		var said struct{ Summary string }
		json.Unmarshal(end.Meta, &said) // fields of another type are no summary
		one.Said = text.Clip(strings.TrimSpace(cmp.Or(said.Summary, end.Text)), maxJoined)
		if why := step.Failure(one.ID); why != nil {
			one.Said = why.Message
		}
		list = append(list, one)
	}
	return list, err
}

// tab returns the tab of a selection that is shown at first.
func (c *selection) tab() string {
	switch {
	case c.Diff != nil:
		return "changes"
	case c.Attempt != nil:
		return "log"
	}
	return "output"
}

// An activity is what was done in a step, apart from its text.
type activity struct {
	Diff     *diffView
	DiffWhy  string
	Evidence []crumb
	Items    []doneItem
	Joined   []joinedPath
	Calls    string // URL of its model calls, "" if they are not recorded
	Omitted  int    // number of items before Items
	Failures []string
}

// Key identifies the selected item.
func (c *selection) Key() string {
	switch {
	case c.Step != nil:
		return "at-" + c.Step.Hash.String()
	case c.Attempt != nil:
		return "at-" + c.Attempt.ID
	}
	return "at-" + c.Gate.ID
}

// selectItem reads the selected item of a task, which a process drives or not: a step by its hash, an attempt or a
// gate by its id.
func (s *Server) selectItem(ctx context.Context, rec view.TaskRecord, tl view.Timeline, driven bool,
	key string) (*selection, error) {
	switch {
	case strings.HasPrefix(key, "g-"):
		return s.selectGate(ctx, rec.Task(), key)
	case strings.Contains(key, "."):
		return s.selectAttempt(ctx, rec, tl, driven, key)
	}
	h, err := dag.ParseHash(key)
	if err != nil {
		return nil, badRequest("%q is not a step, attempt or gate", key)
	}
	own, err := s.views.ThreadOf(ctx, h)
	if err != nil {
		return nil, err
	}
	if own.Task != rec.Root.Task {
		own = rec.Root // a step from before a manual fork
	}
	c, err := s.selectStep(ctx, own, h, false)
	if err == nil {
		err = s.stepChanges(ctx, c, own, rec.Root, tl)
	}
	return c, err
}

// maxPrompt limits how much of a prompt a page shows, in bytes.
const maxPrompt = 128 << 10

func (c *selection) prompt(text string) {
	c.PromptText, c.Instruction = prompt.Split(text)
	for _, part := range []*string{&c.PromptText, &c.Instruction} {
		if !c.whole && len(*part) > maxPrompt {
			*part, c.PromptCut = strings.ToValidUTF8((*part)[:maxPrompt], ""), true
		}
	}
}

// selectStep reads a step. row is the thread whose page it is shown on, or the zero Thread. Long
// texts are shortened unless whole is set.
func (s *Server) selectStep(ctx context.Context, row store.Thread, h dag.Hash, whole bool) (*selection, error) {
	v, err := s.views.Step(ctx, h, false)
	if err != nil {
		return nil, err
	}
	c := &selection{Step: v, Title: stepTitle(v.Role), State: view.DisplayDone, Thread: row.ID,
		Outcome: view.Outcome(v.Role, v.Meta), Here: address{task: row.Task},
		Task: row.Task, By: speaker(row), Read: s.cfg.ReadOnly, Agents: s.cfg.Agents, whole: whole}
	switch {
	case view.FailedAction(row, v.Role, c.Outcome):
		c.State = view.DisplayFailed
	case v.Role == thread.RoleEnd:
		c.State, c.Outcome = view.NewDisplay(view.EndStatus(c.Outcome), nil, nil).State, ""
	}
	said, err := s.said(ctx, v.Step)
	if err != nil {
		return nil, err
	}
	if c.Output, err = newOutput(said.Text, v.Meta, c.Task, c.By, said.Plain, c.whole); err != nil {
		return nil, err
	}
	if v.Paths != nil {
		if c.Joined, err = s.joined(ctx, v.Step); err != nil {
			return nil, err
		}
	}
	if row.ID != "" {
		if c.Short, err = s.stepName(ctx, row, v.N); err != nil {
			return nil, err
		}
	}
	d := v.Detail
	if d == nil {
		return c, nil
	}
	c.Took, c.Agent = text.Took(d.EndedAt-d.StartedAt), d.Agent
	for _, f := range d.Failures {
		c.Failures = append(c.Failures, string(f.Kind)+": "+f.Message)
	}
	earlier := func(a thread.EarlierAttempt) bool { return !a.Calls.IsZero() }
	if !d.Calls.IsZero() || slices.ContainsFunc(d.Attempts, earlier) {
		c.Calls = "/steps/" + h.String() + "/calls"
		if row.ID != "" {
			c.Calls += "?thread=" + row.ID
		}
	}
	if !d.Prompt.IsZero() {
		if c.Prompt, err = s.views.Prompt(ctx, h, h.String()); err != nil {
			return nil, err
		}
		c.prompt(c.Prompt.Text)
		if err := c.addItems(s.views.AttemptItems(ctx, d.Attempt)); err != nil {
			return nil, err
		}
	}
	for _, h := range d.Evidence {
		e, err := s.cfg.Reader.Evidence(ctx, h)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
			continue // verify reports it
		}
		if err != nil {
			return nil, err
		}
		c.Evidence = append(c.Evidence, crumb{cmp.Or(text.OneLine(e.Title, 120), e.Kind),
			"/tasks/" + c.Task + "?tab=evidence#" + thread.FullID(e.By, e.ID)})
	}
	return c, nil
}

// A said is the text of a step, as pages show it.
type said struct {
	Text  string
	Plain bool // it is not Markdown
}

// said returns how to show the text of a step.
func (s *Server) said(ctx context.Context, step view.Step) (said, error) {
	if step.Paths == nil && step.ChildThread.IsZero() {
		return said{step.Text, step.Plain()}, nil
	}
	state, err := s.cfg.Reader.State(ctx, step.Hash)
	if err != nil {
		return said{}, err
	}
	text, plain, err := s.cfg.Reader.Shown(ctx, state, view.Plain)
	return said{text, plain}, err
}

// stepTitles are the titles of steps that no role of a flow made.
var stepTitles = map[string]string{thread.RoleEnd: "End", thread.RoleInput: "What you added",
	thread.RoleCompact: "Summary", thread.RoleJoin: "Join"}

// stepTitle returns a role as shown to users.
func stepTitle(role string) string {
	if of, ok := flow.UntilOf(role); ok {
		return "Check of " + of
	}
	return cmp.Or(stepTitles[role], role)
}

// addItems adds an agent's activity.
func (c *selection) addItems(items []agent.Event, err error) error {
	c.Items = doneItems(items)
	c.Omitted = max(0, len(c.Items)-shownDone)
	c.Items = c.Items[c.Omitted:]
	return err
}

// selectAttempt reads an attempt without a step.
func (s *Server) selectAttempt(ctx context.Context, rec view.TaskRecord, tl view.Timeline, driven bool,
	id string) (*selection, error) {
	i := slices.IndexFunc(rec.Attempts, func(a store.Attempt) bool { return a.ID == id })
	if i < 0 {
		return nil, notFound("task %s has no attempt %q", rec.Root.ID, id)
	}
	a := rec.Attempts[i]
	if a.Status == store.AttemptDone { // it was running when the page was rendered
		if h, err := s.madeBy(ctx, a); err != nil || !h.IsZero() {
			if err != nil {
				return nil, err
			}
			return s.selectItem(ctx, rec, tl, driven, h.String())
		}
	}
	end := a.EndedAt
	if end == 0 {
		end = max(a.StartedAt, time.Now().UnixMilli())
	}
	lost := a.Status == store.AttemptRunning && !driven
	asks := slices.ContainsFunc(rec.Gates, func(g store.Gate) bool {
		return g.State == store.GateOpen && g.Attempt == a.ID
	})
	c := &selection{Attempt: &a, Title: a.Role, State: view.AttemptState(a, lost, asks), Task: rec.Root.Task,
		By: a.Instance, Agent: a.Agent, Took: text.Took(end - a.StartedAt), Read: s.cfg.ReadOnly}
	if !a.Prompt.IsZero() {
		text, err := prompt.Read(ctx, s.cfg.Reader, a.Prompt)
		if err != nil {
			return nil, err
		}
		c.prompt(text)
	}
	return c, c.addItems(s.views.AttemptItems(ctx, a.ID))
}

// madeBy returns the step that an attempt made, or the zero hash.
func (s *Server) madeBy(ctx context.Context, a store.Attempt) (dag.Hash, error) {
	row, err := s.cfg.Store.Thread(ctx, a.Thread)
	if err != nil {
		return dag.Hash{}, err
	}
	for st, err := range s.cfg.Reader.Walk(ctx, row.Head) {
		if err != nil {
			return dag.Hash{}, err
		}
		if st.State.Role == a.Role && (len(st.State.Ancestors) > 0 && st.State.Ancestors[0] == a.From ||
			len(st.State.Ancestors) == 0 && st.State.Start == a.From) {
			return st.Hash, nil
		}
	}
	return dag.Hash{}, nil
}

// selectGate reads a question or an approval, whether open or not. Open ones are answered at the top
// of the page.
func (s *Server) selectGate(ctx context.Context, v view.Task, id string) (*selection, error) {
	i := slices.IndexFunc(v.Gates, func(g view.Gate) bool { return g.ID == id })
	if i < 0 {
		return nil, notFound("task %s has no gate %q", v.ID, id)
	}
	g := v.Gates[i]
	c := &selection{Gate: &g, Title: "Question", State: view.DisplayDone, Outcome: gateStates[g.State], Task: v.ID,
		By: g.AskedBy(), Read: s.cfg.ReadOnly}
	if g.Kind == store.GateApproval {
		c.Title = "Approval"
	}
	kept, err := s.views.Gate(ctx, id)
	if err != nil {
		return nil, err
	}
	if c.Output, err = newOutput(kept.Text, nil, c.Task, c.By, false, c.whole); err != nil {
		return nil, err
	}
	end := int64(g.AnsweredAt)
	if g.State == store.GateOpen {
		c.State, end = view.DisplayNeedsYou, time.Now().UnixMilli()
	}
	if end > 0 {
		c.Took = text.Took(end - int64(g.OpenedAt))
	}
	return c, nil
}

func (s *Server) stepPage(w http.ResponseWriter, r *http.Request, h dag.Hash) error {
	ctx := r.Context()
	row, err := s.seenFrom(r, h)
	if err != nil {
		return err
	}
	c, err := s.selectStep(ctx, row, h, true)
	if err != nil {
		return err
	}
	p := page{Title: c.Title, Nav: "tasks", Follow: "-", Body: c}
	if row.ID != "" {
		root, err := s.cfg.Store.Thread(ctx, row.Task)
		if err != nil {
			return err
		}
		_, tl, err := s.recordOf(ctx, root)
		if err == nil {
			err = s.stepChanges(ctx, c, row, root, tl)
		}
		if err != nil {
			return err
		}
		if p.Crumbs, err = s.breadcrumb(ctx, row); err != nil {
			return err
		}
		p.Crumbs[len(p.Crumbs)-1].Link = stepLink(row.ID, c.Step.N)
		p.Crumbs = append(p.Crumbs, crumb{"step " + strconv.Itoa(c.Step.N), ""})
	}
	return s.show(w, r, http.StatusOK, "step", p)
}

// attemptN returns the name of an attempt: "attempt 2".
func attemptN(id string) string {
	_, n, _ := strings.Cut(id, ".")
	return "attempt " + n
}
