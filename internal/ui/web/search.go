package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/plait-run/plait/internal/view/search"
)

// An index that somebody has searched is kept up to date, which takes at most one part in so many of the time. A search
// waits at most for indexWait for what is missing.
const (
	indexEvery = 2 * time.Second
	indexShare = 4
	indexWait  = time.Second
)

// Sizes of a list of hits.
const (
	shownHits = 20
	maxHits   = 100
)

// query reads what a request searches for.
func query(r *http.Request) (q search.Query, err error) {
	if q, err = search.Parse(r.URL.Query().Get("q"), time.Now()); err != nil {
		return q, badRequest("%v", err)
	}
	if q.All, err = boolParam(r, "all"); err == nil {
		q.Limit, err = number(r, "limit", shownHits, 1, maxHits)
	}
	return q, err
}

func (s *Server) searchSteps(r *http.Request) (any, error) {
	q, err := query(r)
	if err != nil {
		return nil, err
	}
	return s.index.Search(r.Context(), q, indexWait)
}

// hitTabs are the tabs of a step that show where its words were found.
var hitTabs = map[string]string{"output": "output", "prompt": "prompt", "command": "log", "file": "changes"}

// A shownHit is a hit with its link.
type shownHit struct {
	search.Hit
	Link string
}

// hitLink returns the page of the step of a hit, with the tab that has the words.
func hitLink(h search.Hit) string {
	q, to := url.Values{}, "/tasks/"+h.Task
	if h.Step != "" {
		q.Set("at", h.Step)
		q.Set("tab", hitTabs[h.Found])
		return to + "?" + q.Encode() + "#chosen"
	}
	if h.Found == "prompt" {
		return to + "?tab=prompt"
	}
	return to
}

func (s *Server) searchPage(w http.ResponseWriter, r *http.Request) error {
	typed := r.URL.Query().Get("q")
	body := struct {
		*search.Found
		Typed, Problem, More string
		All                  bool
		Hits                 []shownHit
		Built                int // percent of the index
		Now                  time.Time
	}{Typed: typed, Now: time.Now()}
	q, err := query(r)
	code := http.StatusOK
	body.All = q.All
	switch {
	case typed == "":
	case err != nil:
		code, body.Problem = http.StatusBadRequest, err.Error()
	default:
		if body.Found, err = s.index.Search(r.Context(), q, indexWait); err != nil {
			return err
		}
		for _, h := range body.Found.Hits {
			body.Hits = append(body.Hits, shownHit{h, hitLink(h)})
		}
		if p := body.Index; !p.Complete && p.Last > 0 {
			body.Built = int(100 * p.Position / p.Last)
		}
		if body.Found.More && q.Limit < maxHits {
			all := r.URL.Query()
			all.Set("limit", "100")
			body.More = "/search?" + all.Encode()
		}
	}
	return s.show(w, r, code, "search", page{Title: "Search", Nav: "search", Search: typed, Follow: "-", Body: body})
}
