package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/view"
)

// standingOf returns the state of a thread after a request.
func standingOf(row store.Thread, summary string) view.Standing {
	v := view.NewStanding(row)
	v.Summary = summary
	return v
}

func conflict(format string, args ...any) error {
	return &problem{http.StatusConflict, "conflict", fmt.Sprintf(format, args...)}
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
	Agent   string `json:"agent"`
	InPlace bool   `json:"inPlace"`
}

// readThreadRequest returns the thread of a request, and the request's parameters.
func readThreadRequest(r *http.Request, find func(*http.Request) (store.Thread, error)) (row store.Thread, body threadRequest, err error) {
	if row, err = find(r); err == nil {
		err = decodeBody(r, &body)
	}
	return row, body, err
}

func (s *Server) cancelTask(w http.ResponseWriter, r *http.Request) error {
	row, _, err := readThreadRequest(r, s.taskRow)
	if err != nil {
		return err
	}
	// The cancellation is completed even if the client has disconnected.
	if row, err = s.cfg.Control.Cancel(s.ended, row.ID); err != nil {
		return err
	}
	return answer(w, "task.cancel", map[string]any{"id": row.ID, "status": row.Status, "head": row.Head})
}

// resumeTask resumes a task, or passes text to the process that drives it. The text is addressed to
// the task or to a part of it.
func (s *Server) resumeTask(w http.ResponseWriter, r *http.Request) error {
	row, body, err := readThreadRequest(r, s.row)
	if err != nil {
		return err
	}
	how := control.Resume{Prompt: strings.TrimSpace(body.Text)}
	if row.Flow == flow.ChatFlow {
		how.Source = flow.ChatFlow
	}
	switch driven := s.work.drives(row.Root) || s.views.Driven(r.Context(), row.Root); {
	case row.Ended():
		return conflict("task %s is %s", row.ID, row.Status)
	case how.Prompt == "" && row.Root != row.ID:
		return badRequest("%s is a part of task %s: say something to it, or resume the task", row.ID, row.Root)
	case driven && how.Prompt == "":
		return conflict("task %s is driven already", row.Root)
	case driven:
		return s.tell(w, r, row, how)
	}
	there, err := s.open(r.Context(), row)
	if err == nil {
		err = there.CheckInput(r.Context(), row.ID, how)
	}
	if err == nil {
		err = s.work.drive(row, how)
	}
	if err != nil && how.Prompt != "" && s.work.drives(row.Root) { // another request has begun to drive it
		return s.tell(w, r, row, how)
	}
	if err != nil {
		return err
	}
	summary := ""
	if row.Flow != flow.ChatFlow { // in a conversation, the answer says enough
		summary = "Resumed. " + s.outcomeSoon(r.Context(), row.Root)
	}
	return answer(w, "resume", standingOf(row, summary))
}

// tell passes text to the process that drives a task.
func (s *Server) tell(w http.ResponseWriter, r *http.Request, row store.Thread, how control.Resume) error {
	if err := s.cfg.Control.Tell(context.WithoutCancel(r.Context()), row.ID, how); err != nil {
		return err
	}
	s.work.noteInput(row.Root)
	v := standingOf(row, "Sent. The agents read it before their next step.")
	v.Recorded = true
	return answer(w, "resume", v)
}

// stopTask interrupts this server's work on a task, like Ctrl-C in a terminal.
func (s *Server) stopTask(w http.ResponseWriter, r *http.Request) error {
	row, _, err := readThreadRequest(r, s.taskRow)
	if err != nil {
		return err
	}
	if !s.work.stop(row.ID) {
		return conflict("this server does not drive task %s", row.ID)
	}
	return answer(w, "task.stop", standingOf(row, "Stopping. The task can be resumed."))
}

// forkThread creates a task that continues from a step, and drives it.
func (s *Server) forkThread(w http.ResponseWriter, r *http.Request) error {
	row, body, err := readThreadRequest(r, s.row)
	if err != nil {
		return err
	}
	f := control.Fork{Thread: row.ID, At: body.At, Prompt: body.Text, InPlace: body.InPlace,
		Options: control.Options{Agent: body.Agent}}
	if row.Flow == flow.ChatFlow {
		f.Source = flow.ChatFlow
	}
	there, err := s.open(r.Context(), row)
	if err != nil {
		return err
	}
	next, err := there.Fork(context.WithoutCancel(r.Context()), f)
	if err != nil {
		return err
	}
	if err := s.work.drive(next, control.Resume{}); err != nil {
		return notStarted(next, err)
	}
	return answer(w, "fork", standingOf(next, view.ForkSummary(next)))
}

// revertTask reverts a conversation to one of its steps: a fork in the same working tree replaces
// the conversation, which is cancelled. Files are left alone. The fork is made first: after a crash
// in between, both exist and nothing is lost.
func (s *Server) revertTask(w http.ResponseWriter, r *http.Request) error {
	row, body, err := readThreadRequest(r, s.taskRow)
	if err != nil {
		return err
	}
	if row.Flow != flow.ChatFlow {
		return badRequest("only a conversation can be reverted; fork the task instead")
	}
	ctx := context.WithoutCancel(r.Context())
	release, err := s.work.hold(row.ID) // so that it is neither continued nor reverted concurrently
	if err != nil {
		return err
	}
	defer release()
	if row, err = s.taskRow(r); err != nil {
		return err
	}
	switch {
	case row.Ended():
		return conflict("this conversation is %s: it can be forked", row.Status)
	case s.views.Driven(ctx, row.ID):
		return conflict("an agent is working in this conversation: stop it first")
	}
	there, err := s.open(ctx, row)
	if err != nil {
		return err
	}
	next, err := there.Fork(ctx, control.Fork{Thread: row.ID, At: body.At, Source: flow.ChatFlow, InPlace: true})
	if err != nil {
		return err
	}
	if _, err := s.cfg.Control.Cancel(ctx, row.ID); err != nil {
		return err
	}
	if err := s.work.drive(next, control.Resume{}); err != nil {
		return notStarted(next, err)
	}
	return answer(w, "fork", standingOf(next, fmt.Sprintf("reverted to step %s; files stay as they are",
		next.ForkedFrom.Step.Short())))
}

// compactThread has an agent summarise a thread's conversation in the background.
func (s *Server) compactThread(w http.ResponseWriter, r *http.Request) error {
	row, body, err := readThreadRequest(r, s.row)
	if err != nil {
		return err
	}
	if s.views.Driven(r.Context(), row.Root) {
		return conflict("task %s is running: a conversation can only be summarised while no agent works", row.Root)
	}
	if _, err := s.open(r.Context(), row); err != nil {
		return err
	}
	err = s.work.begin(row, func(ctx context.Context, there *control.Controller) error {
		_, err := there.Compact(ctx, control.Compaction{Thread: row.ID, Agent: body.Agent})
		return err
	})
	if err != nil {
		return err
	}
	return answer(w, "thread.compact", standingOf(row, "is summarised"))
}

// verifyRow verifies a thread or, for the root of a task, all threads of the task.
func (s *Server) verifyRow(r *http.Request) (store.Thread, verify.Report, error) {
	row, err := s.row(r)
	if err != nil {
		return row, verify.Report{}, err
	}
	report, err := verify.Thread(r.Context(), verify.Config{Store: s.cfg.Store}, row.ID)
	return row, report, err
}

func (s *Server) verifyThread(w http.ResponseWriter, r *http.Request) error {
	_, report, err := s.verifyRow(r)
	if err != nil {
		return err
	}
	return answer(w, "verify", report)
}

// A verification is the result of verifying a thread or a task.
type verification struct {
	verify.Report
	Row            store.Thread
	Whole          bool // all of a task
	Threads, Steps int
	Took           time.Duration
	At             time.Time
	Altered, Gone  []verify.Problem // which objects were altered, and which are missing
}

func (s *Server) verifyPage(w http.ResponseWriter, r *http.Request) error {
	at := time.Now()
	row, report, err := s.verifyRow(r)
	if err != nil {
		return err
	}
	v := verification{Report: report, Row: row, Whole: row.ID == row.Root, Threads: 1, Steps: row.Steps, At: at,
		Took: time.Since(at).Round(time.Millisecond)}
	if v.Whole {
		rows, err := s.cfg.Store.Threads(r.Context(), store.ThreadFilter{Task: row.Task})
		if err != nil {
			return err
		}
		v.Threads, v.Steps = len(rows), 0
		for _, t := range rows {
			v.Steps += t.Steps
		}
	}
	for _, p := range report.Problems {
		if p.Kind == verify.Integrity {
			v.Altered = append(v.Altered, p)
		} else {
			v.Gone = append(v.Gone, p)
		}
	}
	crumbs, err := s.breadcrumb(r.Context(), row)
	if err != nil {
		return err
	}
	crumbs[len(crumbs)-1].Link = "/threads/" + row.ID
	crumbs = append(crumbs, crumb{"Verify", ""})
	return s.show(w, r, http.StatusOK, "verify", page{Title: "Verify", Nav: "tasks", Follow: "-", Crumbs: crumbs,
		Body: v})
}
