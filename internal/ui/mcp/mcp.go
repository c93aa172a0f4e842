// Package mcp lets an MCP client (Claude Code, Codex, any client of the Model Context Protocol)
// start tasks, follow them, answer their questions and read their results.
//
// A Server offers seven tools over standard input and output
// (https://modelcontextprotocol.io, revisions 2025-06-18 to 2026-07-28). Laws:
//
//   - Decisions that need a person stay with a person. No tool takes access, trust or
//     approvals as an argument, and only the user's own configuration says who may answer
//     what; see [config.Answering].
//   - Only tasks that were started through MCP in this workspace can be answered and read.
//   - Flows are started by name. A flow from a project file is started only if a person has
//     approved exactly that file: a model may just have written it.
//   - A task outlives the client: it is driven elsewhere, by the [Driver].
//   - No tool waits longer than clients do: at most thirty seconds.
//
// A Server drives no tasks, stores nothing and keeps no state between calls: what a tool needs is
// in its arguments and in the record.
package mcp

import (
	"context"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/jsonrpc"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// Config configures a Server.
type Config struct {
	Store     store.Store
	Control   *control.Controller
	Views     *view.Reader
	Dirs      *taskdir.DirWriter // to read evidence
	Workspace string             // where tasks are started, absolute
	Driver    Driver
	Answering config.Answering // who answers the questions of tasks
	// Consent returns an error if a flow may not be started because its files have not been
	// approved.
	Consent func(control.Found) error
	// Offline returns the scenario of a scripted model for a flow; "" for real models.
	Offline func(flow string) string
	Init    func() error    // prepares the workspace for its first task
	Person  string          // the name recorded with a person's answers
	Version string          // of Plait
	Program taskdir.Program // how users invoke it
}

// A Driver runs tasks. Drive returns once the task is being driven or has stopped; it does not
// wait for the task to end. The task continues after ctx has ended.
type Driver interface {
	Drive(ctx context.Context, root store.Thread) error
}

// A Server answers one client.
type Server struct {
	cfg Config
	sdk *sdk.Server
}

const instructions = `Plait runs teams of agents on this workspace and keeps a record of every step.
Start a task with start_task, then call wait_task until it is done or needs a person. When it needs an
answer, open_questions says what is asked: answer what you may, and tell your user about the rest. When it
is done, read_task has its result, its steps and the evidence for what it says.`

// New returns a server. It has no side effects.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, sdk: sdk.NewServer(&sdk.Implementation{Name: "plait", Title: "Plait", Version: cfg.Version},
		&sdk.ServerOptions{Instructions: instructions, Capabilities: &sdk.ServerCapabilities{}})}
	no, reads := false, &sdk.ToolAnnotations{ReadOnlyHint: true}
	add := func(name, description string, a *sdk.ToolAnnotations) *sdk.Tool {
		return &sdk.Tool{Name: name, Description: description, Annotations: a}
	}
	sdk.AddTool(s.sdk, add("list_flows", "List the flows that can be started, with what each does.", reads), namedErrors(s, s.listFlows))
	sdk.AddTool(s.sdk, add("start_task", "Start a task: a team of agents that works on this workspace by a flow. "+
		"Returns at once; the task runs in the background. Follow it with wait_task.",
		&sdk.ToolAnnotations{DestructiveHint: &no}), namedErrors(s, s.startTask))
	sdk.AddTool(s.sdk, add("task_status", "Report a task's state, who does what, and what it has used.", reads),
		namedErrors(s, s.taskStatus))
	sdk.AddTool(s.sdk, add("wait_task", "Wait until a task has ended or needs a person, at most 30 seconds, "+
		"and report its state. Call it again while the state is running.", reads), namedErrors(s, s.waitTask))
	sdk.AddTool(s.sdk, add("open_questions", "List what a task asks: questions to be answered and actions to be approved.",
		reads), namedErrors(s, s.openQuestions))
	sdk.AddTool(s.sdk, add("answer", "Answer a question of a task. By default your user is asked to confirm or write the "+
		"answer. Approvals belong to your user.", &sdk.ToolAnnotations{DestructiveHint: &no}), namedErrors(s, s.answer))
	sdk.AddTool(s.sdk, add("read_task", "Read what a task has done: its result, its steps, one step with its output, "+
		"or its evidence.", reads), namedErrors(s, s.readTask))
	return s
}

// namedErrors wraps a tool so that its errors name the program as users invoke it.
func namedErrors[In, Out any](s *Server, do sdk.ToolHandlerFor[In, Out]) sdk.ToolHandlerFor[In, Out] {
	return func(ctx context.Context, req *sdk.CallToolRequest, args In) (*sdk.CallToolResult, Out, error) {
		res, out, err := do(ctx, req, args)
		return res, out, s.cfg.Program.Named(err)
	}
}

// Serve serves the client connected to in and out until it disconnects or ctx ends.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	err := s.sdk.Run(ctx, &jsonrpc.Transport{In: in, Out: out})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
