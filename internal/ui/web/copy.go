package web

import (
	"html/template"
	"net/http"
	"path"
	"strconv"
	"sync"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// CopyConfig configures the display of a copy.
type CopyConfig struct {
	Copy    *taskdir.DirReader
	Program taskdir.Program // how users invoke it
}

// NewCopy returns a server that shows a copy of a task directory. It reads regular files only and
// needs no store, changes nothing, and keeps its secret in memory.
func NewCopy(cfg CopyConfig) *Server {
	s := &Server{cfg: Config{ReadOnly: true, Program: cfg.Program}, copy: cfg.Copy, mux: http.NewServeMux(),
		work: &work{}, beat: heartbeat}
	s.templates = sync.OnceValues(func() (map[string]*template.Template, error) { return parseTemplates(s.cfg.Program) })
	s.register(s.copyRoutes())
	return s
}

// copyRoutes are the routes of a copy.
func (s *Server) copyRoutes() []route {
	at := integer("from", "where in events.jsonl to begin, in bytes; below zero from its end")
	return []route{
		serve("/{$}", "the task", s.copied("overview")),
		serve("/reports", "reports", s.copied("reports")),
		serve("/evidence", "evidence", s.copied("evidence")),
		serve("/events", "what happened", s.copied("events"), at),
		serve("/sessions", "who worked", s.copied("sessions")),
		serve("/sessions/{id}", "what one agent did", s.copied("sessions"), at),
		serve("/read/{path...}", "a file, to be read", s.readCopy),
		serve("/files/{path...}", "a file, as a download", s.handCopied),
		serve("/static/{file}", "page assets", s.static),
	}
}

func (s *Server) handCopied(w http.ResponseWriter, r *http.Request) error {
	return serveDocument(w, r, s.copy)
}

// copyTabs are the tabs of a copy.
var copyTabs = []crumb{{"overview", "/"}, {"reports", "/reports"}, {"evidence", "/evidence"}, {"events", "/events"},
	{"sessions", "/sessions"}}

// A copyPage is the page of one tab of a copy. Problems lists what cannot be read; the rest is
// shown.
type copyPage struct {
	Task      view.Task
	Dir, Tab  string
	Tabs      []crumb
	Problems  []string
	Result    string // "" if the copy does not have it
	Documents documents
	Evidence  proofs
	Events    taskdir.EventsPage
	Happened  []eventLine
	Workers   []taskdir.Worker
	Worker    *session
	Items     []doneItem
}

// copied returns the handler of a tab.
func (s *Server) copied(tab string) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		from := int64(0)
		if said := r.URL.Query().Get("from"); said != "" {
			var err error
			if from, err = strconv.ParseInt(said, 10, 64); err != nil {
				return badRequest("a place is a number of bytes, not %q", said)
			}
		}
		body := copyPage{Dir: s.copy.Path(), Tab: tab, Tabs: copyTabs}
		wrong := func(err error) {
			if err != nil {
				body.Problems = append(body.Problems, err.Error())
			}
		}
		var err error
		body.Task, err = s.copy.Task()
		wrong(err)
		switch tab {
		case "overview":
			if text := body.Task.Result; text != nil {
				body.Result = withoutFrontMatter(*text)
			}
		case "reports":
			body.Documents, err = documentsIn(s.copy, "")
		case "evidence":
			var entries []taskdir.Entry
			if entries, err = s.copy.Evidence(); err == nil {
				body.Evidence, err = s.evidenceCards(r.Context(), entries, nil)
			}
		case "events":
			body.Events, err = s.copy.Events(from, shownEvents, nil)
			body.Happened = eventLines(body.Events.Events, body.Task, nil)
		case "sessions":
			body.Workers, err = s.copy.Workers()
			if id := r.PathValue("id"); id != "" && err == nil {
				err = body.of(id, s.copy, from)
			}
		}
		if _, ok := err.(*problem); ok {
			return err
		}
		wrong(err)
		title := line(60, body.Task.Title)
		if title == "" {
			title = "a task"
		}
		return s.show(w, r, http.StatusOK, "copy", page{Title: title, Follow: "-", Body: body})
	}
}

// of fills in the activity of one agent.
func (b *copyPage) of(name string, c *taskdir.DirReader, from int64) error {
	for _, one := range b.Workers {
		if one.Name == name {
			v := newSession(one, "")
			b.Worker = &v
		}
	}
	if b.Worker == nil {
		return notFound("there is no agent %q here", name)
	}
	var err error
	b.Events, err = c.Events(from, shownEvents, func(ev store.Event) bool {
		return event.Is(ev, event.AgentItems{}) && ev.Instance == name
	})
	var did []agent.Event
	for _, ev := range b.Events.Events {
		_, items := view.Items(ev)
		did = append(did, items...)
	}
	b.Items = doneItems(did)
	return err
}

// readCopy shows one file of the copy.
func (s *Server) readCopy(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("path")
	entries, _ := s.copy.Evidence() // without entries, citations are marked as broken
	v, err := readDocument(s.copy, name, "", newCiter(entries, name, "/evidence"))
	if err != nil {
		return err
	}
	v.Back = "/reports"
	return s.show(w, r, http.StatusOK, "read", page{Title: path.Base(name), Follow: "-", Body: v,
		Crumbs: []crumb{{"the task", "/"}, {"reports", "/reports"}, {path.Base(name), ""}}})
}
