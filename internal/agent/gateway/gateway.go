// Package gateway connects an agent to its model: a port of this machine that forwards the agent's
// requests and counts what they use.
//
// Given an upstream and its key, it provides an address, a token that is valid only there, and the
// usage. Laws:
//
//   - The key stays in this process. The agent has a token that is valid for one attempt.
//   - Only the paths and methods of the model's API are forwarded, and only to the one upstream, whose certificate
//     must be trusted: by the system, or by the files that agents' variables for this name.
//   - No byte of a successful response is changed, each chunk is passed on as it arrives, and no request is
//     repeated: retries are up to the agent. In any other response known secrets are replaced.
//   - Usage is counted from the responses themselves; where they do not report it, it is estimated.
//   - An [agent.Traffic] sees each request before it is sent, and its outcome once. It is shown neither headers nor
//     known secrets.
//
// It knows nothing of agents, keeps nothing on disk but its socket, and listens on this machine only.
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
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/secret"
)

// An Upstream is the API of a model.
type Upstream struct {
	URL    *url.URL // the base of its API, with the version: https://api.anthropic.com/v1
	Key    string   // "" for none
	Bearer bool     // the key is sent as Authorization: Bearer, otherwise as X-Api-Key
	Google bool     // or as X-Goog-Api-Key
}

// Config configures a gateway.
type Config struct {
	Upstream Upstream
	Traffic  agent.Traffic // nil: everything is forwarded, nothing is kept
	Secrets  *secret.Set   // gets the upstream's key; nil: none is replaced
}

// Usage is the number of requests and of tokens used. Input includes the cached ones.
type Usage struct{ Requests, Input, Cached, Output int64 }

// A Failure is the outcome of the last requests for an answer, if they failed.
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
	way     *http.Transport // to the upstream
	end     context.CancelFunc
	done    sync.WaitGroup // the listeners
	reached atomic.Bool    // a request for an answer arrived
	held    chan struct{}  // one for each request whose body is held

	mu     sync.Mutex
	used   Usage
	failed Failure
	closed bool
	busy   sync.WaitGroup // requests in progress; a closed gateway begins none
}

// silent discards messages: errors are reported to the agent and its Traffic, and stderr belongs to the user.
var silent = log.New(io.Discard, "", 0)

// base is the prefix of an agent's paths; the upstream's own base replaces it. The Gemini API has another.
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

// paths are the paths that are forwarded, below base. One that ends in a slash includes all below it.
var paths = []string{"/messages", "/messages/count_tokens", "/responses", "/chat/completions", "/models", "/models/"}

// plain reports whether every server reads a path alike: none can take it for a path outside of those forwarded.
func plain(p string) bool { return path.Clean(p) == p && !strings.ContainsAny(p, `\%;`) }

// Open listens for the requests of one attempt.
func Open(cfg Config) (*Gateway, error) {
	// A socket's path must be short: hence the temporary directory, not one of the task.
	dir, err := os.MkdirTemp("", "plait-")
	if err != nil {
		return nil, fmt.Errorf("open gateway: %w", err)
	}
	g := &Gateway{cfg: cfg, token: "plait-" + rand.Text(), dir: dir, held: make(chan struct{}, maxHeld)}
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
		cfg.Secrets.Add(cfg.Upstream.Key)
	}
	if u := cfg.Upstream.URL; u != nil {
		password, _ := u.User.Password()
		cfg.Secrets.Add(password)
	}
	ctx, end := context.WithCancel(context.Background())
	g.end = end
	g.way = Transport()
	g.proxy = &httputil.ReverseProxy{FlushInterval: -1, Rewrite: g.rewrite, ModifyResponse: g.respond,
		ErrorHandler: g.failure, ErrorLog: silent, Transport: g.way}
	g.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(g.serve), ErrorLog: silent,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	for _, l := range []net.Listener{g.tcp, g.unix} {
		g.done.Go(func() { _ = g.server.Serve(l) }) // ends with an error when closed
	}
	return g, nil
}

// URL returns the address for an agent that shares this machine's network, without the version of the API:
// http://127.0.0.1:40123.
func (g *Gateway) URL() string { return "http://" + g.tcp.Addr().String() }

// For returns the address for an agent, see URL; one that does not share this machine's network is forwarded to the
// socket, see [Forward].
func (g *Gateway) For(shares bool) string {
	if shares {
		return g.URL()
	}
	return "http://127.0.0.1:" + strconv.Itoa(ForwardPort)
}

// Socket returns the path of the socket for an agent that does not.
func (g *Gateway) Socket() string { return filepath.Join(g.dir, "s") }

// Token returns the token that an agent sends instead of a key.
func (g *Gateway) Token() string { return g.token }

// Used returns the usage so far.
func (g *Gateway) Used() Usage {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

// Bypassed returns what a step says about an agent that answered although none of its requests for an answer reached
// its gateway, otherwise "". For a nil gateway, which means none, it returns "" too.
func (g *Gateway) Bypassed() string {
	if g == nil || g.reached.Load() {
		return ""
	}
	return ", via: direct (its gateway saw no request: limits and the record do not cover it)"
}

// Failed returns how the last requests for an answer failed: zero if the last one to end did not. For a nil gateway it
// returns zero too.
func (g *Gateway) Failed() Failure {
	if g == nil {
		return Failure{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed
}

// note records the outcome of a request for an answer.
func (g *Gateway) note(status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if status/100 == 2 {
		g.failed = Failure{}
		return
	}
	g.failed = Failure{status, g.failed.Times + 1}
}

// Close invalidates the attempt's token and ends requests in progress: their outcome is reported before it returns.
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
	if g.way != nil {
		g.way.CloseIdleConnections()
	}
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
	rest, ok := below(r.URL.Path)
	known := ok && plain(r.URL.Path) && slices.ContainsFunc(paths, func(p string) bool {
		return rest == p || strings.HasSuffix(p, "/") && strings.HasPrefix(rest, p)
	})
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case r.Method == http.MethodHead && !known: // a probe
		w.WriteHeader(http.StatusOK)
	case !known:
		refuse(w, http.StatusNotFound, "not a path of the model's API: "+r.URL.Path)
	case !g.knows(r.Header):
		refuse(w, http.StatusUnauthorized, "the token is not valid for this attempt")
	case r.Header.Get("Upgrade") != "": // its usage could not be counted
		refuse(w, http.StatusBadRequest, "only plain requests are forwarded")
	case r.Method != http.MethodPost && !(reads && strings.HasPrefix(rest, "/models")):
		refuse(w, http.StatusMethodNotAllowed, "not a method of the model's API: "+r.Method+" "+r.URL.Path)
	default:
		g.pass(w, r, rest)
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

// rewrite directs a request to the upstream, with the key instead of the token.
func (g *Gateway) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Path, _ = below(r.Out.URL.Path) // already checked
	r.Out.URL.RawPath = ""
	r.SetURL(g.cfg.Upstream.URL)
	r.Out.URL.Path = "/" + strings.TrimLeft(r.Out.URL.Path, "/") // [url.URL.JoinPath] omits it if there is only a host
	h := r.Out.Header
	h.Del("X-Api-Key")
	h.Del("X-Goog-Api-Key")
	h.Del("Authorization")
	h.Set("Accept-Encoding", "identity") // compressed usage cannot be counted
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

// count adds to the usage.
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
