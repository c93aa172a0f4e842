package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// A question is an open question of a task.
type question struct {
	ID       string   `json:"id"`
	Kind     string   `json:"kind" jsonschema:"question: it wants words; approval: it wants a yes or a no"`
	Asker    string   `json:"asker"`
	Question string   `json:"question"`
	Options  []string `json:"options,omitempty"`
	Action   any      `json:"action,omitempty" jsonschema:"what would be done, of an approval"`
	How      string   `json:"how" jsonschema:"how it can be answered"`
}

type questionList struct {
	Task      string     `json:"task"`
	Questions []question `json:"questions"`
}

func (s *Server) openQuestions(ctx context.Context, _ *sdk.CallToolRequest, args taskArgs) (*sdk.CallToolResult, questionList, error) {
	root, err := s.task(ctx, args.Task)
	if err != nil {
		return nil, questionList{}, err
	}
	gates, err := s.cfg.Views.Gates(ctx, view.GateFilter{Task: root.ID, State: store.GateOpen})
	if err != nil {
		return nil, questionList{}, err
	}
	list := questionList{Task: root.Short, Questions: []question{}}
	for _, g := range gates {
		kind := "question"
		if g.Kind == store.GateApproval {
			kind = "approval"
		}
		q := question{g.ID, kind, view.Asker(g), view.About(g), g.Options, nil, s.howToAnswer(g)}
		if len(g.Action) > 0 {
			q.Action = g.Action
		}
		list.Questions = append(list.Questions, q)
	}
	return nil, list, nil
}

// howToAnswer describes who can answer a gate, and how.
func (s *Server) howToAnswer(g store.Gate) string {
	switch s.answerer(g) {
	case config.ByModel:
		return "call answer with your answer"
	case config.ByPerson:
		return "call answer: your user is asked"
	}
	return s.cfg.Program.Says("tell your user, who can: " + command(g))
}

// command returns the command with which a person answers a gate.
func command(g store.Gate) string {
	if g.Kind == store.GateApproval {
		return fmt.Sprintf("plait approve %s (or: plait deny %s)", g.ID, g.ID)
	}
	return fmt.Sprintf("plait answer %s -m TEXT", g.ID)
}

// answerer returns who may answer a gate here.
func (s *Server) answerer(g store.Gate) config.Answerer {
	if g.Kind == store.GateApproval {
		return s.cfg.Answering.Approvals
	}
	return s.cfg.Answering.Questions
}

type answerArgs struct {
	Question string `json:"question" jsonschema:"the id from open_questions"`
	Text     string `json:"text,omitempty" jsonschema:"the answer; where your user is asked, what you suggest"`
}

type answered struct {
	Question string `json:"question"`
	State    string `json:"state" jsonschema:"answered, approved or rejected"`
	Next     string `json:"next"`
}

// form is the name of the request that the client shows to a person.
const form = "answer"

// answer answers a gate: with the model's own words if the user's configuration allows it,
// otherwise with what the person at the client says.
func (s *Server) answer(ctx context.Context, req *sdk.CallToolRequest, args answerArgs) (*sdk.CallToolResult, answered, error) {
	fail := func(err error) (*sdk.CallToolResult, answered, error) { return nil, answered{}, err }
	g, err := s.cfg.Views.Gate(ctx, args.Question)
	if errors.Is(err, store.ErrNotFound) {
		return fail(fmt.Errorf("no question %q: open_questions has the ids", args.Question))
	}
	if err != nil {
		return fail(err)
	}
	root, err := s.task(ctx, g.Task)
	if err != nil {
		return fail(err)
	}
	a := gate.Answer{Text: args.Text, By: s.cfg.Person, Via: store.ViaMCP}
	switch who := s.answerer(g); {
	case g.State != store.GateOpen:
		return fail(&gate.StateError{Gate: g})
	case who == config.ByModel && g.Kind == store.GateInput:
		a.By = cmp.Or(client(req), "a model")
	case who != config.ByPerson:
		return fail(fmt.Errorf("this is for your user to decide, not for you: %s", command(g)))
	case !elicits(req):
		return fail(fmt.Errorf("this program cannot ask your user; tell them: %s", command(g)))
	default:
		said, ask, err := s.askPerson(req, g, args.Text)
		if ask != nil || err != nil {
			return ask, answered{}, err
		}
		a.Approve, a.Reject, a.Text = said.Approve, said.Reject, said.Text
	}
	if g, err = s.cfg.Control.Gates().Answer(ctx, g.ID, a); err != nil {
		return fail(err)
	}
	v := answered{Question: g.ID, State: string(g.State), Next: "call wait_task"}
	if err := s.ensureDriven(ctx, root, g.ID); err != nil {
		v.Next = s.cfg.Program.Says(fmt.Sprintf("the answer is recorded, but the task could not continue: %v; "+
			"your user can: plait resume %s", err, root.Short))
	}
	return nil, v, nil
}

// patience is how long a task's driver has to process an answer.
const patience = 3 * time.Second

// ensureDriven makes sure that a task continues after an answer. Its driver may process the answer, or
// may have been about to stop when it arrived.
func (s *Server) ensureDriven(ctx context.Context, root store.Thread, gate string) error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if !s.cfg.Views.Driven(ctx, root.ID) {
			return s.cfg.Driver.Drive(ctx, root)
		}
		if g, err := s.cfg.Store.Gate(ctx, gate); err != nil || g.UsedAt != 0 {
			return err
		}
	}
	return nil
}

// client returns the name of the calling program.
func client(req *sdk.CallToolRequest) string {
	if p := req.Session.InitializeParams(); p != nil && p.ClientInfo != nil {
		return "model in " + text.OneLine(p.ClientInfo.Name, 60)
	}
	return ""
}

// elicits reports whether the client can ask its user.
func elicits(req *sdk.CallToolRequest) bool {
	p := req.Session.InitializeParams()
	return p != nil && p.Capabilities != nil && p.Capabilities.Elicitation != nil
}

// askPerson returns what the person at the client answered, or, in ask, the form to ask them
// with.
func (s *Server) askPerson(req *sdk.CallToolRequest, g store.Gate, suggested string) (said gate.Answer, ask *sdk.CallToolResult, err error) {
	got, _ := req.Params.InputResponses[form].(*sdk.ElicitResult)
	if got == nil {
		params, err := formOf(g, suggested)
		if err != nil {
			return said, nil, err
		}
		return said, &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{form: params}, RequestState: g.ID}, nil
	}
	if req.Params.RequestState != g.ID {
		return said, nil, errors.New("the answer is for another question; call answer again")
	}
	if got.Action != "accept" {
		return said, nil, fmt.Errorf("your user did not answer; they can: %s", command(g))
	}
	text, _ := got.Content["answer"].(string)
	if g.Kind == store.GateInput {
		return gate.Answer{Text: text}, nil, nil
	}
	said.Approve, said.Reject = text == "approve", text == "deny"
	if said.Approve == said.Reject {
		return said, nil, fmt.Errorf("your user did not decide; they can: %s", command(g))
	}
	said.Text, _ = got.Content["comment"].(string)
	return said, nil, nil
}

// maxShown limits the size of an action that a client's form shows, in bytes: people must see all
// that they approve.
const maxShown = 4 << 10

// formOf returns the form for a gate.
func formOf(g store.Gate, suggested string) (*sdk.ElicitParams, error) {
	if g.Kind == store.GateInput {
		answer := map[string]any{"type": "string", "title": "Answer", "minLength": 1}
		if suggested != "" {
			answer["default"] = suggested
		}
		if len(g.Options) > 0 {
			answer["description"] = strings.Join(g.Options, " · ")
		}
		return &sdk.ElicitParams{
			Message: fmt.Sprintf("%s asks: %s", view.Asker(g), view.About(g)),
			RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"answer": answer},
				"required": []string{"answer"}},
		}, nil
	}
	if len(g.Action) > maxShown || !g.Diff.IsZero() {
		return nil, fmt.Errorf("the action is too long to show here; your user can review it and decide: %s", command(g))
	}
	return &sdk.ElicitParams{
		Message: fmt.Sprintf("%s wants approval: %s\n\n%s", view.Asker(g), view.About(g), g.Action),
		RequestedSchema: map[string]any{"type": "object", "required": []string{"answer"}, "properties": map[string]any{
			"answer":  map[string]any{"type": "string", "title": "Decision", "enum": []string{"approve", "deny"}},
			"comment": map[string]any{"type": "string", "title": "Comment (optional)"},
		}},
	}, nil
}
