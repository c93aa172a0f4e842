package web

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/sys/text"
)

// A page has the data that all pages share.
type page struct {
	Title   string
	Nav     string // the current section of the site
	Crumbs  []crumb
	Waiting int    // number of things that need a person
	Search  string // the search text
	Follow  string // the task to follow, "" for all, "-" for none
	Stream  string // the query of its event stream
	Types   string // types of events after which it is reloaded, "" for the default
	Read    bool   // read-only
	Copy    bool   // it shows a copy of one task
	Hosts   bool   // several hosts share the record
	Agents  []string
	Now     time.Time
	Body    any
}

// A crumb is a link in the breadcrumb.
type crumb struct{ Text, Link string }

// The types of events after which a page is reloaded: all, or all except agents' activity.
var (
	allEvents   = strings.Join(event.All(), " ")
	stateEvents = strings.Join(slices.DeleteFunc(event.All(),
		func(typ string) bool { return typ == event.Type(event.AgentItems{}) }), " ")
)

// show renders a page completely before it sends anything.
func (s *Server) show(w http.ResponseWriter, r *http.Request, code int, name string, p page) error {
	all, err := s.templates()
	if err != nil {
		return err
	}
	p.Types = cmp.Or(p.Types, allEvents)
	if pos, ok := r.Context().Value(posKey{}).(int64); ok && p.Follow != "-" {
		q := url.Values{"after": {strconv.FormatInt(pos, 10)}, "type": strings.Fields(p.Types)}
		if p.Follow != "" {
			q.Set("task", p.Follow)
		}
		p.Stream = q.Encode()
	}
	p.Read, p.Now, p.Agents, p.Hosts, p.Copy = s.cfg.ReadOnly, time.Now(), s.cfg.Agents, s.cfg.Hosts, s.copy != nil
	if !p.Copy && p.Waiting == 0 {
		if needs, err := s.needs(r.Context()); err == nil {
			p.Waiting = needs.count()
		}
	}
	var out strings.Builder
	if err := all[name].ExecuteTemplate(&out, "frame.html", p); err != nil {
		return fmt.Errorf("render page %s: %w", name, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	io.WriteString(w, visible(out.String())) // the client may have disconnected
	return nil
}

// visible escapes characters that are invisible or change the direction of text. Pages themselves
// have none.
func visible(html string) string { return text.Safe(strings.ReplaceAll(html, "\r\n", "\n")) }

// posKey is the context key for the position that a page follows from.
type posKey struct{}
