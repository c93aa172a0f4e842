package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
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

// listen serves /metrics, in the text format of Prometheus, and /healthz.
func (a *app) listen(address string, s store.Store, w *control.Worker) (statServer, error) {
	if address == "" {
		return statServer{}, nil
	}
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return statServer{}, usagef("invalid value %q for --listen: want a loopback address, such as 127.0.0.1:9090",
			text.Safe(address))
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return statServer{}, usagef("--listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		metrics(out, w.Counts())
	})
	mux.HandleFunc("GET /healthz", func(out http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), healthWait)
		defer cancel()
		if answers(ctx, s) != nil {
			http.Error(out, "the record does not answer", http.StatusServiceUnavailable)
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
	server := &http.Server{Handler: mux, ReadHeaderTimeout: healthWait}
	go server.Serve(l)
	return statServer{server, l.Addr()}, nil
}

// metrics writes counts.
func metrics(out io.Writer, c control.Counts) {
	draining := int64(0)
	if c.Draining {
		draining = 1
	}
	for _, m := range []struct {
		name, kind, help string
		value            int64
	}{
		{"plait_worker_driving", "gauge", "Threads that are driven now.", c.Driving},
		{"plait_worker_draining", "gauge", "Whether the worker is draining, and starts nothing new.", draining},
		{"plait_worker_drives_total", "counter", "Number of times a thread was driven.", c.Drives},
		{"plait_worker_reconciles_total", "counter", "Number of times a task was checked.", c.Reconciles},
		{"plait_worker_failures_total", "counter", "Calls that failed since the record could not be kept.", c.Failed},
	} {
		fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
}
