package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

type taskArgs struct {
	Task string `json:"task,omitempty" jsonschema:"the id that start_task returned; default: the newest task that was started here"`
}

// A taskStatus is the state of a task.
type taskStatus struct {
	Task      string      `json:"task"`
	Title     string      `json:"title"`
	Flow      string      `json:"flow"`
	State     string      `json:"state" jsonschema:"queued, running, needs you, done, failed or cancelled"`
	Reason    string      `json:"reason"`
	Steps     int         `json:"steps"`
	Seconds   int64       `json:"seconds" jsonschema:"since it was started, until it ended"`
	Tokens    int64       `json:"tokens"`
	CostUSD   float64     `json:"costUSD" jsonschema:"0 where no price is known"`
	Agents    []agentLine `json:"agents"`
	Questions int         `json:"questions" jsonschema:"open questions and approvals"`
	Next      string      `json:"next" jsonschema:"what to call next"`

	resting bool // it does not continue without a person
}

// An agentLine is one agent of a task.
type agentLine struct {
	Name  string `json:"name"`
	Agent string `json:"agent"`
	State string `json:"state"`
	Title string `json:"title,omitempty"`
}

func (s *Server) taskStatus(ctx context.Context, _ *sdk.CallToolRequest, args taskArgs) (*sdk.CallToolResult, taskStatus, error) {
	root, err := s.task(ctx, args.Task)
	if err != nil {
		return nil, taskStatus{}, err
	}
	v, err := s.status(ctx, root)
	return nil, v, err
}

// task returns the root thread of a task that was started through MCP.
func (s *Server) task(ctx context.Context, typed string) (store.Thread, error) {
	if typed == "" {
		return s.newest(ctx)
	}
	row, _, err := s.cfg.Views.Find(ctx, typed)
	if err != nil {
		return row, err
	}
	if row, err = view.RootOf(ctx, s.cfg.Store, row.Root); err != nil {
		return row, err
	}
	if !s.startedHere(row) {
		return store.Thread{}, fmt.Errorf("task %s was not started here: only such tasks can be read and answered", row.Short)
	}
	return row, nil
}

// newest returns the newest task that was started through MCP.
func (s *Server) newest(ctx context.Context) (store.Thread, error) {
	by := store.ThreadFilter{Kind: store.KindRoot, Newest: true, Workspace: s.cfg.Workspace, Limit: 50}
	for {
		rows, err := s.cfg.Store.Threads(ctx, by)
		if err != nil {
			return store.Thread{}, err
		}
		for _, row := range rows {
			if s.startedHere(row) {
				return row, nil
			}
			by.After = row.ID
		}
		if len(rows) < by.Limit {
			return store.Thread{}, errors.New("no task was started here yet: call start_task")
		}
	}
}

// startedHere reports whether a task was started through MCP in this workspace.
func (s *Server) startedHere(root store.Thread) bool {
	o, err := record.OptionsOf(root)
	return err == nil && o.StartedBy == StartedBy && root.Workspace == s.cfg.Workspace
}

// status reads the state of a task.
func (s *Server) status(ctx context.Context, root store.Thread) (taskStatus, error) {
	root, err := s.cfg.Store.Thread(ctx, root.ID)
	if err != nil {
		return taskStatus{}, err
	}
	t, err := s.cfg.Views.Task(ctx, root)
	if err != nil {
		return taskStatus{}, err
	}
	until := time.Now().UnixMilli()
	if root.Ended() {
		until = root.EndedAt
	}
	v := taskStatus{
		Task: t.Short, Title: t.Title, Flow: t.Flow, State: string(t.Display.State), Reason: t.Display.Reason,
		Steps: t.Steps, Seconds: max(0, until-root.CreatedAt) / 1000,
		Tokens:  t.Usage.InputTokens + t.Usage.OutputTokens,
		CostUSD: float64(t.Usage.CostMicroUSD) / 1e6, Agents: []agentLine{}, Questions: len(t.OpenGates()),
	}
	for _, m := range t.Roster {
		v.Agents = append(v.Agents, agentLine{m.Instance, m.Agent, string(m.State), m.Title})
	}
	v.resting = root.Ended() || v.Questions > 0 || !s.cfg.Views.Driven(ctx, root.ID)
	if v.Next = s.cfg.Program.Says(next(t)); !v.resting { // an answer may not have been processed yet
		v.State, v.Reason, v.Next = string(view.DisplayRunning), "", "call wait_task"
	}
	return v, nil
}

// next describes what a client can do about a task.
func next(t view.Task) string {
	switch {
	case len(t.OpenGates()) > 0:
		return "call open_questions"
	case t.Display.State == view.DisplayDone:
		return "call read_task for the result"
	case t.Display.State == view.DisplayFailed && t.Status != store.Blocked, t.Display.State == view.DisplayCancelled:
		return "it has ended; read_task has what was done"
	case t.Status == store.Blocked, t.Status == view.Interrupted:
		return "it stopped; tell your user, who can continue it with: plait resume " + t.Short
	}
	return "call wait_task"
}

type waitArgs struct {
	Task    string `json:"task,omitempty" jsonschema:"the id that start_task returned; default: the newest task that was started here"`
	Seconds int    `json:"seconds,omitempty" jsonschema:"how long to wait at most, 1 to 30; default 25"`
}

// Limits on how long a client waits, in seconds.
const (
	mostSeconds    = 30
	defaultSeconds = 25
)

// waitTask waits until a task no longer continues without a person. It reports progress after
// every step.
func (s *Server) waitTask(ctx context.Context, req *sdk.CallToolRequest, args waitArgs) (*sdk.CallToolResult, taskStatus, error) {
	root, err := s.task(ctx, args.Task)
	if err != nil {
		return nil, taskStatus{}, err
	}
	most := args.Seconds
	if most <= 0 {
		most = defaultSeconds
	}
	timed, cancel := context.WithTimeout(ctx, time.Duration(min(most, mostSeconds))*time.Second)
	defer cancel()
	token := req.Params.GetProgressToken()
	for seen, told := int64(0), ""; ; {
		v, err := s.status(ctx, root)
		if err != nil {
			return nil, v, err
		}
		if v.resting {
			return nil, v, nil
		}
		if now := progress(v); token != nil && now != told {
			told = now
			// A client that misses it calls again.
			_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Message: now,
				Progress: float64(v.Steps)})
		}
		if seen, err = s.waitForEvent(timed, seen); err != nil {
			return nil, v, err
		}
		if timed.Err() != nil {
			return nil, v, ctx.Err()
		}
	}
}

// tick is the longest wait for an event: a driver that stops does not write one.
const tick = 500 * time.Millisecond

// waitForEvent waits for an event after seen, the end of ctx, or a tick.
func (s *Server) waitForEvent(ctx context.Context, seen int64) (int64, error) {
	short, cancel := context.WithTimeout(ctx, tick)
	defer cancel()
	last, err := s.cfg.Store.Wait(short, seen)
	if short.Err() != nil {
		return seen, nil
	}
	return last, err
}

// progress describes the progress of a task on one line.
func progress(v taskStatus) string {
	working := 0
	for _, a := range v.Agents {
		if a.State == string(store.Running) {
			working++
		}
	}
	return fmt.Sprintf("%s: %s, %s working", v.State, text.Count(v.Steps, "step"), text.Count(working, "agent"))
}
