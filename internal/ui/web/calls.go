package web

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
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

// stepCallsPage shows the calls of a step.
func (s *Server) stepCallsPage(w http.ResponseWriter, r *http.Request, h dag.Hash) error {
	v, err := s.stepCalls(r, h)
	if err != nil {
		return err
	}
	body := callsPage{Calls: v, At: "/steps/" + h.String() + "/calls", Thread: r.URL.Query().Get("thread")}
	title := "Requests to the model"
	if call := v.Calls[0]; call.Request != nil {
		body.One = &oneCall{Call: call, Asked: newExcerpt(call.Request), Said: newExcerpt(call.Response)}
		title = "Request " + strconv.Itoa(call.N)
	}
	row, err := s.seenFrom(r, h)
	if err != nil {
		return err
	}
	back := "/steps/" + h.String()
	if body.Thread != "" {
		body.Thread = row.ID
		back += "?thread=" + row.ID
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
