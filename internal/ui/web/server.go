package web

import (
	"context"
	"html/template"
	"net/http"
	"time"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/search"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// Config configures a Server.
type Config struct {
	Store     store.Store
	Control   *control.Controller
	Reader    *thread.Reader
	Dirs      *taskdir.DirWriter
	Workspace string   // the workspace whose tasks are shown first
	Home      string   // where the cookie's secret is stored; "": in memory
	ReadOnly  bool     // nothing can be changed
	Agents    []string // names of agents to choose from
	// Consent is called before starting a flow whose files may define commands. Its error says
	// why the flow may not be started. If Consent is nil, any flow may be started.
	Consent func(control.Found) error
	// Open returns the controller of a task's own workspace, with which the task is driven. Its error says why nothing
	// may be run there: commands of its configuration changed. If Open is nil, Control drives every task.
	Open func(context.Context, store.Thread) (*control.Controller, error)
	// Publish commits what a task changed to a branch of its own and, if request is set, opens its pull request or
	// updates it. protected allows changes to files from which programs or instructions are taken. It returns what was
	// done, and the address of the request. If Publish is nil, there are no buttons for it.
	Publish func(ctx context.Context, row store.Thread, request, protected bool) (did, url string, err error)
	// Offline returns the scenario of the scripted model to use for a flow that is started here;
	// "", or a nil func, means real models.
	Offline func(flow string) string
	// Person is the name recorded with answers.
	Person string
	// Signing says whose signatures of answers count; nil: those of any key do. Vouches says it of checkpoints.
	Signing *gate.Signing
	Vouches history.Counts
	// Start is the page that the one-time URL redirects to; "" is the inbox.
	Start string
	// Demo is the demo offered while there is no task; nil for none.
	Demo *Demo
	// Hosts reports whether several hosts share the record; there is then a page that lists them.
	Hosts bool
	// Program is how users invoke it.
	Program taskdir.Program
}

// A Server shows a store.
type Server struct {
	cfg   Config
	copy  *taskdir.DirReader // what is shown instead of a store, or nil
	views *view.Reader
	index search.Index
	work  *work
	hub   *hub
	mux   *http.ServeMux
	ended context.Context // done when streams have to end
	beat  time.Duration   // time between heartbeats of a stream

	patches   patchCache
	templates func() (map[string]*template.Template, error) // parsed once
}

// A Demo is an offer to run a first task without an account: its agents look at the project and
// change nothing.
type Demo struct {
	Codex bool // Codex is installed: the demo is the flow orchestrate with a scripted model
}

// stopped says why the last job of a task ended early, "" if it did not.
func (s *Server) stopped(id string) string {
	if err := s.work.lastError(id); err != nil {
		return s.cfg.Program.Named(err).Error()
	}
	return ""
}
