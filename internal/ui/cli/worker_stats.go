package cli

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// A statServer reports on a worker over HTTP. Without an address it has nothing to close.
type statServer struct {
	server *http.Server
	addr   net.Addr
}

// Close stops it.
func (s statServer) Close() error {
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}

func (a *app) servedAt(s statServer) string {
	if s.server == nil {
		return ""
	}
	return ", http://" + s.addr.String() + "/metrics"
}

// healthWait is how long the record may take to respond.
const healthWait = 5 * time.Second

// statsWait is how long a request may take, and how long a connection without one is kept: an agent that is refused
// must not be able to use up the worker's connections.
const statsWait = 30 * time.Second

// measured returns what metrics are made of.
func (a *app) measured(f workerFlags, w *workplace, worker *control.Worker) Measured {
	all := view.Reader{Store: a.place.Store()} // also what waits in vain for this worker
	return Measured{Counts: worker.Counts, Unable: worker.Unable, Waiting: all.Waiting, Slots: agentsOf(f, w),
		Dirs: a.teamDirs(w.home), Free: freeIn, Version: a.program.version()}
}

// listen serves /metrics, in the text format of Prometheus, and /healthz. Isolated agents cannot read either.
func (a *app) listen(address string, s store.Store, e Engine, w *control.Worker, m Measured) (statServer, error) {
	if address == "" {
		return statServer{}, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return statServer{}, usagef("--listen: %w", err)
	}
	mux := http.NewServeMux()
	if metrics := a.program.Team.Metrics; metrics != nil {
		mux.Handle("GET /metrics", metrics(m))
	}
	mux.HandleFunc("GET /healthz", func(out http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), healthWait)
		defer cancel()
		if answers(ctx, s) != nil {
			http.Error(out, "the record does not answer", http.StatusServiceUnavailable)
			return
		}
		if e.Ping(ctx) != nil {
			http.Error(out, "the engine does not answer", http.StatusServiceUnavailable)
			return
		}
		if w.Counts().Draining {
			http.Error(out, "draining", http.StatusServiceUnavailable)
			return
		}
		if why := w.Unable(); why != nil {
			http.Error(out, text.OneLine(why.Error(), 400), http.StatusServiceUnavailable)
			return
		}
		io.WriteString(out, "ok\n")
	})
	var handler http.Handler = mux
	if a.cell != nil {
		handler = notForAgents(mux)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: healthWait, WriteTimeout: statsWait,
		IdleTimeout: statsWait}
	go server.Serve(l)
	return statServer{server, l.Addr()}, nil
}
