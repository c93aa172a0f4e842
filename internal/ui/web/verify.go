package web

import (
	"net/http"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/view"
)

// A verification is the result of verifying a thread or a task.
type verification struct {
	verify.Report
	Row            store.Thread
	Whole          bool // all of a task
	Threads, Steps int
	Took           time.Duration
	At             time.Time
	Altered, Gone  []verify.Problem // which objects were altered, and which are missing
	Kept           string           // what of the record's log is signed; "": nothing is kept here
	Forked         bool             // the log does not continue what was signed, as Kept says
}

func (s *Server) verifyPage(w http.ResponseWriter, r *http.Request, row store.Thread) error {
	at := time.Now()
	report, err := s.verifyThread(r, row)
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
	if s.cfg.Home != "" {
		kept := view.KeptOf(s.cfg.Store, s.cfg.Home)
		known, err := s.views.History(r.Context(), kept)
		if err == nil {
			err = kept.Check(r.Context(), s.cfg.Store)
		}
		if v.Kept = known.Says(at); err != nil {
			v.Kept, v.Forked = err.Error(), true
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
