package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// standingOf returns the state of a thread after a request.
func standingOf(row store.Thread, summary string) view.Standing {
	v := view.NewStanding(row)
	v.Summary = summary
	return v
}

// notStarted wraps err for a task that was created but could not be driven.
func notStarted(row store.Thread, err error) error {
	p := *asProblem(err)
	p.text = fmt.Sprintf("%s; task %s was made, and can be resumed", p.text, row.ID)
	return &p
}

// open returns the controller of a task's own workspace, if commands may be run there.
func (s *Server) open(ctx context.Context, row store.Thread) (*control.Controller, error) {
	there, err := s.cfg.Open(ctx, row)
	if err != nil {
		return nil, conflict("%v", err)
	}
	return there, nil
}

// A threadRequest has the parameters of a request about a thread. The table of routes defines which
// of them a route takes.
type threadRequest struct {
	At      string `json:"at"`
	Text    string `json:"text"`
	About   string `json:"about"`
	Tree    string `json:"tree"`
	Agent   string `json:"agent"`
	InPlace bool   `json:"inPlace"`
}

// saidAbout returns what a request says, and the lines that it is about, or nil.
func (s *Server) saidAbout(ctx context.Context, row store.Thread, body threadRequest) (string, *thread.Comment, error) {
	if body.About == "" {
		return strings.TrimSpace(body.Text), nil, nil
	}
	return s.cfg.Control.About(ctx, row, body.About, body.Tree, strings.TrimSpace(body.Text))
}

func (s *Server) cancelTask(_ *http.Request, row store.Thread) (any, error) {
	// The cancellation is completed even if the client has disconnected.
	row, err := s.cfg.Control.Cancel(s.ended, row.ID)
	return map[string]any{"id": row.ID, "status": row.Status, "head": row.Head}, err
}

// dismissTasks takes tasks that have stopped out of the inbox.
func (s *Server) dismissTasks(r *http.Request) (any, error) {
	var body struct {
		Tasks string `json:"tasks"`
	}
	if err := decodeBody(r, &body); err != nil {
		return nil, err
	}
	ids := strings.Fields(body.Tasks)
	if len(ids) == 0 {
		return nil, badRequest("tasks: name one or more")
	}
	for _, id := range ids {
		if _, err := s.cfg.Control.Dismiss(context.WithoutCancel(r.Context()), id); err != nil {
			return nil, err
		}
	}
	return map[string]any{"tasks": ids, "summary": "Dismissed " + text.Count(len(ids), "task") + "."}, nil
}

// resumeTask resumes a task, or passes text to the process that drives it. The text is addressed to
// the task or to a part of it.
func (s *Server) resumeTask(r *http.Request, row store.Thread, body threadRequest) (view.Standing, error) {
	said, about, err := s.saidAbout(r.Context(), row, body)
	if err != nil {
		return view.Standing{}, err
	}
	how := control.Resume{Prompt: said, About: about}
	if row.Flow == flow.ChatFlow {
		how.Source = flow.ChatFlow
	}
	switch driven := s.work.drives(row.Root) || s.views.Driven(r.Context(), row.Root); {
	case row.Ended():
		return view.Standing{}, conflict("task %s is %s", row.ID, row.Status)
	case how.Prompt == "" && row.Root != row.ID:
		return view.Standing{}, badRequest("%s is a part of task %s: say something to it, or resume the task",
			row.ID, row.Root)
	case driven && how.Prompt == "":
		return view.Standing{}, conflict("task %s is driven already", row.Root)
	case driven:
		return s.queueInput(r.Context(), row, how)
	}
	there, err := s.open(r.Context(), row)
	if err == nil {
		err = there.CheckInput(r.Context(), row.ID, how)
	}
	if err == nil {
		err = s.work.drive(row, how)
	}
	if err != nil && how.Prompt != "" && s.work.drives(row.Root) { // another request has begun to drive it
		return s.queueInput(r.Context(), row, how)
	}
	if err != nil {
		return view.Standing{}, err
	}
	summary := ""
	if row.Flow != flow.ChatFlow { // in a conversation, the answer says enough
		summary = "Resumed. " + s.outcomeSoon(r.Context(), row.Root)
	}
	return standingOf(row, summary), nil
}

// retryTask tries again what failed in a task, and drives the task that continues: itself, or a fork of it.
func (s *Server) retryTask(r *http.Request, row store.Thread, body threadRequest) (view.Standing, error) {
	there, err := s.open(r.Context(), row)
	if err != nil {
		return view.Standing{}, err
	}
	said, about, err := s.saidAbout(r.Context(), row, body)
	if err != nil {
		return view.Standing{}, err
	}
	again, err := there.Retry(context.WithoutCancel(r.Context()),
		control.Retry{Thread: row.ID, Prompt: said, About: about})
	if err != nil {
		return view.Standing{}, err
	}
	if err := s.work.drive(again.Row, again.Resume); err != nil {
		return view.Standing{}, notStarted(again.Row, err)
	}
	return standingOf(again.Row, again.Note), nil
}

// queueInput passes text to the process that drives a task.
func (s *Server) queueInput(ctx context.Context, row store.Thread, how control.Resume) (view.Standing, error) {
	if err := s.cfg.Control.QueueInput(context.WithoutCancel(ctx), row.ID, how); err != nil {
		return view.Standing{}, err
	}
	s.work.noteInput(row.Root)
	v := standingOf(row, "Sent. The agents read it before their next step.")
	v.Recorded = true
	return v, nil
}

// stopTask interrupts this server's work on a task, like Ctrl-C in a terminal.
func (s *Server) stopTask(_ *http.Request, row store.Thread) (view.Standing, error) {
	if !s.work.stop(row.ID) {
		return view.Standing{}, conflict("this server does not drive task %s", row.ID)
	}
	return standingOf(row, "Stopping. The task can be resumed."), nil
}

// forkThread creates a task that continues from a step, and drives it.
func (s *Server) forkThread(r *http.Request, row store.Thread, body threadRequest) (view.Standing, error) {
	said, about, err := s.saidAbout(r.Context(), row, body)
	if err != nil {
		return view.Standing{}, err
	}
	f := control.Fork{Thread: row.ID, At: body.At, Prompt: said, About: about, InPlace: body.InPlace,
		Options: control.Options{Agent: body.Agent}}
	if row.Flow == flow.ChatFlow {
		f.Source = flow.ChatFlow
	}
	there, err := s.open(r.Context(), row)
	if err != nil {
		return view.Standing{}, err
	}
	next, err := there.Fork(context.WithoutCancel(r.Context()), f)
	if err != nil {
		return view.Standing{}, err
	}
	if err := s.work.drive(next, control.Resume{}); err != nil {
		return view.Standing{}, notStarted(next, err)
	}
	return standingOf(next, taskdir.ForkSummary(next)), nil
}

// revertTask reverts a conversation to one of its steps: a fork in the same working tree replaces
// the conversation, which is cancelled. Files are left alone. The fork is made first: after a crash
// in between, both exist and nothing is lost.
func (s *Server) revertTask(r *http.Request, row store.Thread, body threadRequest) (view.Standing, error) {
	if row.Flow != flow.ChatFlow {
		return view.Standing{}, badRequest("only a conversation can be reverted; fork the task instead")
	}
	ctx := context.WithoutCancel(r.Context())
	release, err := s.work.hold(row.ID) // so that it is neither continued nor reverted concurrently
	if err != nil {
		return view.Standing{}, err
	}
	defer release()
	if row, err = s.taskRow(r); err != nil { // as it is now
		return view.Standing{}, err
	}
	switch {
	case row.Ended():
		return view.Standing{}, conflict("this conversation is %s: it can be forked", row.Status)
	case s.views.Driven(ctx, row.ID):
		return view.Standing{}, conflict("an agent is working in this conversation: stop it first")
	}
	there, err := s.open(ctx, row)
	if err != nil {
		return view.Standing{}, err
	}
	next, err := there.Fork(ctx, control.Fork{Thread: row.ID, At: body.At, Source: flow.ChatFlow, InPlace: true})
	if err != nil {
		return view.Standing{}, err
	}
	if _, err := s.cfg.Control.Cancel(ctx, row.ID); err != nil {
		return view.Standing{}, err
	}
	if err := s.work.drive(next, control.Resume{}); err != nil {
		return view.Standing{}, notStarted(next, err)
	}
	said := fmt.Sprintf("reverted to step %s; files stay as they are", next.ForkedFrom.Step.Short())
	return standingOf(next, said), nil
}

// compactThread has an agent summarize a thread's conversation in the background.
func (s *Server) compactThread(r *http.Request, row store.Thread, body threadRequest) (view.Standing, error) {
	if s.views.Driven(r.Context(), row.Root) {
		return view.Standing{}, conflict(
			"task %s is running: a conversation can only be summarized while no agent works", row.Root)
	}
	if _, err := s.open(r.Context(), row); err != nil {
		return view.Standing{}, err
	}
	err := s.work.begin(row, func(ctx context.Context, there *control.Controller) error {
		_, err := there.Compact(ctx, control.Compaction{Thread: row.ID, Agent: body.Agent})
		return err
	})
	if err != nil {
		return view.Standing{}, err
	}
	return standingOf(row, "is summarized"), nil
}
