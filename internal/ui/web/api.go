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
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// row finds a thread by its full id only: nothing in a URL is ever used as a file path.
func (s *Server) row(r *http.Request) (store.Thread, error) {
	id, err := thread.ParseID(r.PathValue("id"))
	if err != nil {
		return store.Thread{}, notFound("there is no thread %q", r.PathValue("id"))
	}
	return s.cfg.Store.Thread(r.Context(), id)
}

func (s *Server) taskRow(r *http.Request) (store.Thread, error) {
	row, err := s.row(r)
	if err == nil && row.ID != row.Root {
		err = notFound("%s is a part of task %s", row.ID, row.Root)
	}
	return row, err
}

func (s *Server) showTask(w http.ResponseWriter, r *http.Request) error {
	row, err := s.taskRow(r)
	if err != nil {
		return err
	}
	v, err := s.views.Task(r.Context(), row)
	if err != nil {
		return err
	}
	shown, err := taskdir.Show(s.cfg.Program, v)
	if err != nil {
		return err
	}
	return answer(w, "task.show", shown)
}

func (s *Server) listEvidence(w http.ResponseWriter, r *http.Request) error {
	row, err := s.taskRow(r)
	if err != nil {
		return err
	}
	list, err := s.cfg.Dirs.Evidence(r.Context(), row.ID)
	if err != nil {
		return err
	}
	return answer(w, "task.evidence.list", map[string]any{"evidence": list})
}

func (s *Server) listThreads(w http.ResponseWriter, r *http.Request) error {
	var f view.ThreadFilter
	var err error
	if f.All, err = boolParam(r, "all"); err != nil {
		return err
	}
	if f.Parts, err = boolParam(r, "parts"); err != nil {
		return err
	}
	q := r.URL.Query()
	if f.Since, f.Until, err = view.Span(q.Get("since"), q.Get("until"), time.Now()); err != nil {
		return badRequest("%v", err)
	}
	if id := q.Get("before"); id != "" {
		if f.Before, err = thread.ParseID(id); err != nil {
			return badRequest("%v", err)
		}
	}
	if f.Limit, err = number(r, "limit", 0, 1, math.MaxInt32); err != nil {
		return err
	}
	rows, next, err := s.views.Threads(r.Context(), f)
	if err != nil {
		return err
	}
	return answer(w, "thread.list", map[string]any{"threads": rows, "next": next})
}

func (s *Server) showThread(w http.ResponseWriter, r *http.Request) error {
	row, err := s.row(r)
	if err != nil {
		return err
	}
	before, err := number(r, "before", 0, 1, math.MaxInt32)
	if err != nil {
		return err
	}
	limit, err := number(r, "limit", 0, 1, math.MaxInt32)
	if err != nil {
		return err
	}
	read := s.views.Thread
	if before > 0 || limit > 0 {
		read = func(ctx context.Context, row store.Thread) (*view.Thread, error) {
			return s.views.Newest(ctx, row, before, limit)
		}
	}
	v, err := read(r.Context(), row)
	if err != nil {
		return err
	}
	return answer(w, "thread.show", v)
}

// hash returns the hash in a path.
func hash(r *http.Request) (dag.Hash, error) {
	h, err := dag.ParseHash(r.PathValue("hash"))
	if err != nil {
		return h, notFound("there is no object %q", r.PathValue("hash"))
	}
	return h, nil
}

func (s *Server) showStep(w http.ResponseWriter, r *http.Request) error {
	h, err := hash(r)
	if err != nil {
		return err
	}
	v, err := s.views.Step(r.Context(), h, false)
	if err != nil {
		return err
	}
	return answer(w, "thread.show", v)
}

func (s *Server) showPrompt(w http.ResponseWriter, r *http.Request) error {
	h, err := hash(r)
	if err != nil {
		return err
	}
	v, err := s.views.Prompt(r.Context(), h, h.String())
	if err != nil {
		return err
	}
	return answer(w, "thread.prompt", v)
}

func (s *Server) listGates(w http.ResponseWriter, r *http.Request) error {
	all, err := boolParam(r, "all")
	if err != nil {
		return err
	}
	open, err := s.views.Gates(r.Context(),
		view.GateFilter{All: all, Task: r.URL.Query().Get("task"), State: store.GateOpen})
	if err != nil {
		return err
	}
	return answer(w, "gate.list", map[string]any{"gates": open})
}

func (s *Server) showGate(w http.ResponseWriter, r *http.Request) error {
	g, err := s.views.Gate(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return answer(w, "gate.show", g)
}

func (s *Server) approve(w http.ResponseWriter, r *http.Request) error {
	return s.decide(w, r, "gate.approve", gate.Answer{Approve: true})
}

func (s *Server) deny(w http.ResponseWriter, r *http.Request) error {
	return s.decide(w, r, "gate.deny", gate.Answer{Reject: true})
}

func (s *Server) answerGate(w http.ResponseWriter, r *http.Request) error {
	return s.decide(w, r, "gate.answer", gate.Answer{})
}

// decide records a person's answer, and resumes the task if no other process drives it.
func (s *Server) decide(w http.ResponseWriter, r *http.Request, name string, a gate.Answer) error {
	var body struct {
		Text  string `json:"text"`
		Input string `json:"input"`
	}
	if err := decodeBody(r, &body); err != nil {
		return err
	}
	if body.Input != "" {
		a.Input = json.RawMessage(body.Input)
	}
	a.Text, a.By, a.Via = body.Text, s.cfg.Person, store.ViaWeb
	ctx := context.WithoutCancel(r.Context()) // the task continues even if the client has disconnected
	g, err := s.cfg.Control.Gates().Answer(ctx, r.PathValue("id"), a)
	if err != nil {
		return err
	}
	row, err := s.cfg.Store.Thread(ctx, g.Task)
	if err != nil {
		return err
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
	return answer(w, name, v)
}

func (s *Server) listFlows(w http.ResponseWriter, r *http.Request) error {
	list, err := s.views.Flows(r.Context())
	if err != nil {
		return err
	}
	return answer(w, "flow.list", map[string]any{"flows": list})
}
