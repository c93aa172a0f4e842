package web

import (
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// A callsPage shows the requests of a step's agent to its model.
type callsPage struct {
	*view.Calls
	At     string // the URL of the page of the step's calls
	Thread string // the thread whose page linked here, "" if not known
	One    *oneCall
}

// A oneCall is a request with its response, shortened for the page.
type oneCall struct {
	view.Call
	Asked, Said excerpt
}

// An excerpt is the beginning of a request or response.
type excerpt struct {
	Text string
	Cut  bool
}

// maxExcerpt limits how much of a request or response a page shows, in bytes.
const maxExcerpt = 256 << 10

func newExcerpt(text *string) excerpt {
	if text == nil {
		return excerpt{}
	}
	h := excerpt{Text: *text, Cut: len(*text) > maxExcerpt}
	if h.Cut {
		h.Text = h.Text[:maxExcerpt]
	}
	h.Text = strings.ToValidUTF8(h.Text, "\uFFFD")
	return h
}

// calls reads the calls of a step, or only the requested one.
func (s *Server) calls(r *http.Request) (*view.Calls, dag.Hash, error) {
	h, err := hash(r)
	if err != nil {
		return nil, h, err
	}
	one, err := number(r, "call", 0, 1, math.MaxInt32)
	if err != nil {
		return nil, h, err
	}
	v, err := s.views.Calls(r.Context(), h, h.String(), one)
	return v, h, err
}

// stepCalls returns the calls of a step.
func (s *Server) stepCalls(w http.ResponseWriter, r *http.Request) error {
	v, _, err := s.calls(r)
	if err != nil {
		return err
	}
	return answer(w, "thread.calls", v)
}

// stepCallsPage shows the calls of a step.
func (s *Server) stepCallsPage(w http.ResponseWriter, r *http.Request) error {
	v, h, err := s.calls(r)
	if err != nil {
		return err
	}
	body := callsPage{Calls: v, At: "/steps/" + h.String() + "/calls"}
	title := "Requests to the model"
	if call := v.Calls[0]; call.Request != nil {
		body.One = &oneCall{Call: call, Asked: newExcerpt(call.Request), Said: newExcerpt(call.Response)}
		title = "Request " + strconv.Itoa(call.N)
	}
	var row store.Thread
	back := "/steps/" + h.String()
	if id := r.URL.Query().Get("thread"); id != "" {
		if id, err = thread.ParseID(id); err != nil {
			return badRequest("%v", err)
		}
		if row, err = s.cfg.Store.Thread(r.Context(), id); err != nil {
			return err
		}
		body.Thread = id
		back += "?thread=" + id
	} else if row, err = s.views.ThreadOf(r.Context(), h); err != nil {
		return err
	}
	p := page{Title: title, Nav: "tasks", Follow: "-", Body: body}
	if row.ID != "" {
		if p.Crumbs, err = s.breadcrumb(r.Context(), row); err != nil {
			return err
		}
		p.Crumbs[len(p.Crumbs)-1].Link = stepLink(row.ID, v.N)
	}
	p.Crumbs = append(p.Crumbs, crumb{"step " + strconv.Itoa(v.N), back}, crumb{"requests", ""})
	return s.show(w, r, http.StatusOK, "calls", p)
}
