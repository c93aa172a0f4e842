package web

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

func (s *Server) listTasks(r *http.Request) (any, error) {
	f, err := taskFilter(r)
	if err != nil {
		return nil, err
	}
	rows, next, err := s.pageOfTasks(r.Context(), f)
	return map[string]any{"tasks": taskdir.WithCommands(s.cfg.Program, rows), "next": next}, err
}

func (s *Server) showTask(r *http.Request, row store.Thread) (*taskdir.PrintedTask, error) {
	v, err := s.views.Task(r.Context(), row)
	if err != nil {
		return nil, err
	}
	return taskdir.Show(s.cfg.Program, v)
}

func (s *Server) showTimeline(r *http.Request, row store.Thread) (view.Timeline, error) {
	task, err := s.views.Record(r.Context(), row)
	if err != nil {
		return view.Timeline{}, err
	}
	return s.views.Timeline(r.Context(), task, time.Now())
}

func (s *Server) listEvidence(r *http.Request, row store.Thread) (any, error) {
	list, err := s.cfg.Dirs.Evidence(r.Context(), row.ID)
	return map[string]any{"evidence": list}, err
}

func (s *Server) listThreads(r *http.Request) (any, error) {
	var f view.ThreadFilter
	var err error
	if f.All, err = boolParam(r, "all"); err != nil {
		return nil, err
	}
	if f.Parts, err = boolParam(r, "parts"); err != nil {
		return nil, err
	}
	q := r.URL.Query()
	if f.Since, f.Until, err = view.Span(q.Get("since"), q.Get("until"), time.Now()); err != nil {
		return nil, badRequest("%v", err)
	}
	if id := q.Get("before"); id != "" {
		if f.Before, err = thread.ParseID(id); err != nil {
			return nil, badRequest("%v", err)
		}
	}
	if f.Limit, err = number(r, "limit", 0, 1, math.MaxInt32); err != nil {
		return nil, err
	}
	rows, next, err := s.views.Threads(r.Context(), f)
	return map[string]any{"threads": rows, "next": next}, err
}

func (s *Server) showThread(r *http.Request, row store.Thread) (*view.Thread, error) {
	before, err := number(r, "before", 0, 1, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	limit, err := number(r, "limit", 0, 1, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	return s.views.Thread(r.Context(), row, before, limit)
}

func (s *Server) showTree(r *http.Request, row store.Thread) (*view.Tree, error) {
	depth, err := number(r, "depth", -1, 0, 1000)
	if err != nil {
		return nil, err
	}
	return s.views.Tree(r.Context(), view.Subject{Row: row, Head: row.Head}, depth)
}

func (s *Server) showStack(r *http.Request, row store.Thread) (*view.Stack, error) {
	return s.views.Stack(r.Context(), view.Subject{Row: row, Head: row.Head})
}

// verifyThread verifies a thread or, for the root of a task, all threads of the task.
func (s *Server) verifyThread(r *http.Request, row store.Thread) (verify.Report, error) {
	cfg := verify.Config{Store: s.cfg.Store}
	if s.cfg.Signing != nil {
		cfg.Counts = s.cfg.Signing.Counts
	}
	return verify.Thread(r.Context(), cfg, row.ID)
}

func (s *Server) diffThreads(r *http.Request) (any, error) {
	return s.diff(r.Context(), r.PathValue("id"), r.PathValue("other"))
}

func (s *Server) showStep(r *http.Request, h dag.Hash) (*view.WholeStep, error) {
	return s.views.Step(r.Context(), h, false)
}

func (s *Server) showPrompt(r *http.Request, h dag.Hash) (*view.Prompt, error) {
	return s.views.Prompt(r.Context(), h, h.String())
}

// stepCalls reads the calls of a step, or only the requested one.
func (s *Server) stepCalls(r *http.Request, h dag.Hash) (*view.Calls, error) {
	one, err := number(r, "call", 0, 1, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	return s.views.Calls(r.Context(), h, h.String(), one)
}

func (s *Server) listHosts(r *http.Request) (any, error) {
	hosts, err := s.views.Hosts(r.Context())
	if err != nil {
		return nil, err
	}
	workers, err := s.views.Workers(r.Context())
	return map[string]any{"hosts": hosts, "workers": workers}, err
}

func (s *Server) listGates(r *http.Request) (any, error) {
	all, err := boolParam(r, "all")
	if err != nil {
		return nil, err
	}
	open, err := s.views.Gates(r.Context(),
		view.GateFilter{All: all, Task: r.URL.Query().Get("task"), State: store.GateOpen})
	return map[string]any{"gates": open}, err
}

func (s *Server) showGate(r *http.Request) (any, error) {
	return s.views.Gate(r.Context(), r.PathValue("id"))
}

// answerGate returns the handler that records a person's answer, of which a is the beginning, and resumes the task if
// no other process drives it.
func (s *Server) answerGate(a gate.Answer) apiHandler {
	return func(r *http.Request) (any, error) {
		var body struct {
			Text      string `json:"text"`
			Input     string `json:"input"`
			Signature string `json:"signature"`
			Session   bool   `json:"session"`
			Digest    string `json:"digest"`
		}
		if err := decodeBody(r, &body); err != nil {
			return nil, err
		}
		a := a
		if body.Digest != "" {
			var err error
			if a.Digest, err = dag.ParseHash(body.Digest); err != nil {
				return nil, badRequest("digest: %v", err)
			}
		}
		if body.Session {
			a.Grant = store.GrantSession
		}
		if body.Input != "" {
			a.Input = json.RawMessage(body.Input)
		}
		a.Text, a.By, a.Via, a.Signature = body.Text, s.cfg.Person, store.ViaWeb, body.Signature
		ctx := context.WithoutCancel(r.Context()) // the task continues even if the client has disconnected
		g, err := s.cfg.Control.Gates().Answer(ctx, r.PathValue("id"), a)
		if err != nil {
			return nil, err
		}
		row, err := s.cfg.Store.Thread(ctx, g.Task)
		if err != nil {
			return nil, err
		}
		driven := !row.Ended() && (s.work.drives(g.Task) || s.views.Driven(ctx, g.Task) ||
			s.work.drive(row, control.Resume{}) == nil)
		v := view.NewAnswered(g, driven)
		v.Summary = map[store.GateState]string{store.GateApproved: "Approved.", store.GateRejected: "Denied.",
			store.GateAnswered: "Answered."}[g.State]
		if g.Edited != nil {
			v.Summary = "Approved, with your input."
		}
		switch {
		case driven:
			v.Summary = strings.TrimSpace(v.Summary + " " + s.outcomeSoon(ctx, g.Task))
		case row.Ended():
			v.Summary += " The task had already ended."
		default:
			v.Summary += " Nothing is running the task: resume it."
		}
		return v, nil
	}
}

func (s *Server) listFlows(r *http.Request) (any, error) {
	list, err := s.views.Flows(r.Context())
	return map[string]any{"flows": list}, err
}

func (s *Server) showFlow(r *http.Request, f control.Found) (*view.Flow, error) {
	return s.views.Flow(r.Context(), r.PathValue("name"), f.Bundle, f.Object.Hash)
}

func (s *Server) showFlowGraph(_ *http.Request, f control.Found) (any, error) {
	graphs, err := view.BundleGraphs(f.Bundle)
	return map[string]any{"graphs": graphs}, err
}
