// Package web implements the web pages and the HTTP API: what needs a person, what is happening,
// what happened, why, and what it cost.
//
// A Server shows a store through its controller, or a copy of one task's directory. It shows and
// follows tasks, threads, conversations, gates and flows, starts and resumes tasks, and listens
// on a loopback address. Laws:
//
//   - The guard checks every request first: it must have a Host of ours and the cookie of the
//     one-time URL, and must not make changes on behalf of another site's page.
//   - A GET changes nothing. An overdue gate is shown as expired, but recording that is left
//     to its driver.
//   - Pages, API and OpenAPI document all come from the same table of routes.
//   - What agents said is text. None of their markup becomes markup of a page; their files
//     are downloads, read through os.Root.
//   - Pages follow the journal through a single reader, however many are open, and their
//     size is limited, however long a thread or a text is.
//   - A task has one job at a time. Jobs end with the server; their tasks can be resumed.
//
// A Server accepts no connections from other machines, sends nothing anywhere, and decides
// nothing: what a person does here is recorded, as on the command line.
package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/search"
)

// New returns a server. It has no side effects.
func New(cfg Config) *Server {
	if cfg.Open == nil {
		cfg.Open = func(context.Context, store.Thread) (*control.Controller, error) { return cfg.Control, nil }
	}
	s := &Server{
		cfg: cfg, hub: newHub(cfg.Store), mux: http.NewServeMux(), work: &work{open: cfg.Open}, beat: heartbeat,
		views: &view.Reader{Store: cfg.Store, Nodes: cfg.Reader, Workspace: cfg.Workspace, ReadOnly: true,
			Vouches: cfg.Vouches},
	}
	s.index = search.New(s.views, cfg.Home, worktree.Changed)
	s.templates = sync.OnceValues(func() (map[string]*template.Template, error) { return parseTemplates(s.cfg.Program) })
	s.register(s.routes())
	return s
}

// register adds routes to the mux.
func (s *Server) register(routes []route) {
	for _, r := range routes {
		s.mux.Handle(r.Method+" "+r.Path, s.handle(r))
	}
	s.mux.HandleFunc("/", s.unknownPath)
}

// Listen returns a listener on a loopback address.
func Listen(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("listen on %s: only addresses of this machine are served: "+
			"anyone who can reach it would see everything", addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}

// shutdownTime is how long a server waits for active requests when it shuts down.
const shutdownTime = 3 * time.Second

// Serve serves l until ctx ends. ready is called once with the one-time URL.
func (s *Server) Serve(ctx context.Context, l net.Listener, ready func(url string)) error {
	g, err := newGuard(l.Addr(), s.cfg.Home, s.cfg.Program)
	if err != nil {
		l.Close()
		return err
	}
	if s.copy == nil && s.cfg.Home != "" && !s.cfg.ReadOnly {
		gone, err := announce(s.cfg.Home, Running{Addr: l.Addr().String(), Workspace: s.cfg.Workspace, PID: os.Getpid()})
		if err != nil {
			l.Close()
			return err
		}
		defer gone()
	}
	ctx, stop := context.WithCancel(ctx)
	s.ended, s.work.ctx = ctx, ctx
	var reads sync.WaitGroup
	if s.copy == nil {
		reads.Go(func() { s.hub.run(ctx) })
		reads.Go(func() { s.index.Keep(ctx, indexEvery, indexShare) })
		if !s.cfg.ReadOnly {
			reads.Go(func() { s.watchNotes(ctx) })
		}
	}
	defer reads.Wait()
	defer s.work.end()
	defer stop()
	srv := &http.Server{
		Handler: g.wrap(s.mux), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		DisableGeneralOptionsHandler: true, // it would respond before the guard does
	}
	over := make(chan error, 1)
	go func() { over <- srv.Serve(l) }()
	ready(g.url(cmp.Or(s.cfg.Start, "/")))
	select {
	case err = <-over:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if err = srv.Shutdown(ending); err != nil {
		err = srv.Close()
	}
	if served := <-over; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
