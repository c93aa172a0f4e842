// Package gateway is the way by which an agent reaches its model: a port of this machine that
// forwards what the agent asks, and counts.
//
// In go an upstream and its key; out come an address, a token that is good there and nowhere else,
// and what was used. Laws:
//
//   - The key stays in this process. The agent has the token of one attempt, which is dead with it.
//   - Only the paths of the model's API are forwarded, and only to the one upstream.
//   - No byte of a response is changed, each chunk is passed on as it comes, and nothing is asked
//     again: retries are the agent's own.
//   - What is used is counted from the responses themselves; where they do not say it, it is estimated.
//   - An [agent.Traffic] sees each request before it is sent, and what came of it once. Headers are shown to nobody.
//
// It knows no agents, keeps nothing on disk but the socket, and listens to this machine only.
package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/agent"
)

// An Upstream is where a model is.
type Upstream struct {
	URL    *url.URL // the base of its API, with the version: https://api.anthropic.com/v1
	Key    string   // "" for none
	Bearer bool     // the key is sent as Authorization: Bearer, else as X-Api-Key
	Google bool     // or as X-Goog-Api-Key
}

// Config is what a gateway is for.
type Config struct {
	Upstream Upstream
	Traffic  agent.Traffic // nil: everything is sent on, nothing is kept
}

// Usage is what was used, in tokens. Input counts the cached ones too.
type Usage struct{ Requests, Input, Cached, Output int64 }

// A Failure is what came of the last requests for an answer, when they failed.
type Failure struct {
	Status int // of the last one: 402 when Plait refused it, 502 when no whole answer came; 0: it did not fail
	Times  int // how many failed in a row
}

// A Gateway forwards the requests of one attempt.
type Gateway struct {
	cfg     Config
	token   string
	dir     string
	tcp     net.Listener
	unix    net.Listener
	server  *http.Server
	proxy   *httputil.ReverseProxy
	end     context.CancelFunc
	done    sync.WaitGroup // the listeners
	reached atomic.Bool    // by a request for an answer

	mu     sync.Mutex
	used   Usage
	failed Failure
	closed bool
	busy   sync.WaitGroup // requests; those of a closed gateway do not begin
}

// silent: what goes wrong is told to the agent, and to its Traffic; stderr is the person's.
var silent = log.New(io.Discard, "", 0)

// base is what an agent's paths begin with; the upstream's own base takes its place. That of the Gemini API is another.
const (
	base       = "/v1"
	geminiBase = "/v1beta"
)

// below returns the part of a path below its base.
func below(path string) (string, bool) {
	if rest, ok := strings.CutPrefix(path, geminiBase); ok {
		return rest, strings.HasPrefix(rest, "/models/")
	}
	return strings.CutPrefix(path, base)
}

// paths are what is forwarded, below base. A path that ends in a slash stands for all below it.
var paths = []string{"/messages", "/messages/count_tokens", "/responses", "/chat/completions", "/models", "/models/"}

// Open listens for the requests of one attempt.
func Open(cfg Config) (*Gateway, error) {
	// The name of a socket is short: the temporary directory, not one of the task.
	dir, err := os.MkdirTemp("", "plait-")
	if err != nil {
		return nil, fmt.Errorf("open gateway: %w", err)
	}
	g := &Gateway{cfg: cfg, token: "plait-" + rand.Text(), dir: dir}
	g.tcp, err = net.Listen("tcp4", "127.0.0.1:0")
	if err == nil {
		g.unix, err = net.Listen("unix", g.Socket())
	}
	if errors.Is(err, syscall.EINVAL) {
		err = fmt.Errorf("%w: set TMPDIR to a shorter path", err)
	}
	if err != nil {
		g.Close()
		return nil, fmt.Errorf("open gateway: %w", err)
	}
	if cfg.Upstream.Key != "" {
		guardMemory()
	}
	ctx, end := context.WithCancel(context.Background())
	g.end = end
	g.proxy = &httputil.ReverseProxy{FlushInterval: -1, Rewrite: g.rewrite, ModifyResponse: g.respond,
		ErrorHandler: g.failure, ErrorLog: silent}
	g.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(g.serve), ErrorLog: silent,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	for _, l := range []net.Listener{g.tcp, g.unix} {
		g.done.Go(func() { _ = g.server.Serve(l) }) // ends with an error when closed
	}
	return g, nil
}

// URL is the address for an agent that shares this machine's network, without the version of the API:
// http://127.0.0.1:40123.
func (g *Gateway) URL() string { return "http://" + g.tcp.Addr().String() }

// Socket is the address for one that does not.
func (g *Gateway) Socket() string { return filepath.Join(g.dir, "s") }

// Token is what an agent shows in the place of a key.
func (g *Gateway) Token() string { return g.token }

// Used returns what was used so far.
func (g *Gateway) Used() Usage {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

// Bypassed is what a step says of an agent that answered though no request of it came to its gateway, else "". It is
// "" too without a gateway, which is nil.
func (g *Gateway) Bypassed() string {
	if g == nil || g.reached.Load() {
		return ""
	}
	return ", via: direct (its gateway saw no request: limits and the record do not cover it)"
}

// Failed returns how the last requests for an answer failed: nothing, when the last one that ended did not.
func (g *Gateway) Failed() Failure {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed
}

// note remembers what came of a request for an answer.
func (g *Gateway) note(status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if status/100 == 2 {
		g.failed = Failure{}
		return
	}
	g.failed = Failure{status, g.failed.Times + 1}
}

// Close ends the attempt's token, and requests that are under way: what they come to is told before it returns.
func (g *Gateway) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	var errs []error
	if g.server != nil {
		g.end()
		errs = append(errs, g.server.Close())
	} else {
		for _, l := range []net.Listener{g.tcp, g.unix} {
			if l != nil {
				errs = append(errs, l.Close())
			}
		}
	}
	g.done.Wait()
	g.busy.Wait()
	return errors.Join(append(errs, os.RemoveAll(g.dir))...)
}

func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return
	}
	g.busy.Add(1)
	g.mu.Unlock()
	defer g.busy.Done()
	path, ok := below(r.URL.Path)
	known := ok && slices.ContainsFunc(paths, func(p string) bool {
		return path == p || strings.HasSuffix(p, "/") && strings.HasPrefix(path, p)
	})
	switch {
	case r.Method == http.MethodHead && !known: // is anybody there
		w.WriteHeader(http.StatusOK)
	case !known:
		refuse(w, http.StatusNotFound, "no path of the model's API: "+r.URL.Path)
	case !g.knows(r.Header):
		refuse(w, http.StatusUnauthorized, "the token is not that of this attempt")
	case r.Header.Get("Upgrade") != "": // what is said then cannot be counted
		refuse(w, http.StatusBadRequest, "only plain requests are forwarded")
	default:
		g.pass(w, r, path)
	}
}

// knows reports whether a request has the token.
func (g *Gateway) knows(h http.Header) bool {
	shown := cmp.Or(h.Get("X-Api-Key"), h.Get("X-Goog-Api-Key"))
	if shown == "" {
		shown, _ = strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	}
	return subtle.ConstantTimeCompare([]byte(shown), []byte(g.token)) == 1
}

// rewrite aims a request at the upstream, with the key in the place of the token.
func (g *Gateway) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Path, _ = below(r.Out.URL.Path) // it was looked at before
	r.Out.URL.RawPath = ""
	r.SetURL(g.cfg.Upstream.URL)
	r.Out.URL.Path = "/" + strings.TrimLeft(r.Out.URL.Path, "/") // what [url.URL.JoinPath] made of a host has none
	h := r.Out.Header
	h.Del("X-Api-Key")
	h.Del("X-Goog-Api-Key")
	h.Del("Authorization")
	h.Set("Accept-Encoding", "identity") // what is packed cannot be counted
	switch {
	case g.cfg.Upstream.Key == "":
	case g.cfg.Upstream.Google:
		h.Set("X-Goog-Api-Key", g.cfg.Upstream.Key)
	case g.cfg.Upstream.Bearer:
		h.Set("Authorization", "Bearer "+g.cfg.Upstream.Key)
	default:
		h.Set("X-Api-Key", g.cfg.Upstream.Key)
	}
}

// count adds to what was used.
func (g *Gateway) count(u Usage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used.Requests += u.Requests
	g.used.Input += u.Input
	g.used.Cached += u.Cached
	g.used.Output += u.Output
}

func (g *Gateway) add(u agent.Usage) {
	g.count(Usage{Input: u.InputTokens, Cached: u.CachedInputTokens, Output: u.OutputTokens})
}
