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
//   - What is used is counted from the responses themselves.
//
// It knows no agents, keeps nothing on disk but the socket, and listens to this machine only.
package gateway

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// An Upstream is where a model is.
type Upstream struct {
	URL    *url.URL // to which the paths of the API are added: https://api.anthropic.com
	Key    string   // "" for none
	Bearer bool     // the key is sent as Authorization: Bearer, else as X-Api-Key
}

// Usage is what was used, in tokens. Input counts the cached ones too.
type Usage struct{ Requests, Input, Cached, Output int64 }

// A Gateway forwards the requests of one attempt.
type Gateway struct {
	up     Upstream
	token  string
	dir    string
	tcp    net.Listener
	unix   net.Listener
	server *http.Server
	done   sync.WaitGroup

	mu   sync.Mutex
	used Usage
}

// paths are what is forwarded. A path that ends in a slash stands for all below it.
var paths = []string{"/v1/messages", "/v1/messages/count_tokens", "/v1/models", "/v1/models/"}

// Open listens for the requests of one attempt.
func Open(up Upstream) (*Gateway, error) {
	// The name of a socket is short: the temporary directory, not one of the task.
	dir, err := os.MkdirTemp("", "plait-gateway-")
	if err != nil {
		return nil, fmt.Errorf("open gateway: %w", err)
	}
	g := &Gateway{up: up, token: "plait-" + rand.Text(), dir: dir}
	g.tcp, err = net.Listen("tcp4", "127.0.0.1:0")
	if err == nil {
		g.unix, err = net.Listen("unix", g.Socket())
	}
	if err != nil {
		g.Close()
		return nil, fmt.Errorf("open gateway: %w", err)
	}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1, Rewrite: g.rewrite, ModifyResponse: g.count,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if !errors.Is(err, http.ErrAbortHandler) {
				refuse(w, http.StatusBadGateway, "the model's server could not be reached: "+cause(err))
			}
		},
	}
	g.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { g.serve(proxy, w, r) })}
	for _, l := range []net.Listener{g.tcp, g.unix} {
		g.done.Go(func() { _ = g.server.Serve(l) }) // ends with an error when closed
	}
	return g, nil
}

// URL is the address for an agent that shares this machine's network.
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

// Close ends the attempt's token, and requests that are under way.
func (g *Gateway) Close() error {
	var errs []error
	if g.server != nil {
		errs = append(errs, g.server.Close())
	} else {
		for _, l := range []net.Listener{g.tcp, g.unix} {
			if l != nil {
				errs = append(errs, l.Close())
			}
		}
	}
	g.done.Wait()
	return errors.Join(append(errs, os.RemoveAll(g.dir))...)
}

func (g *Gateway) serve(proxy http.Handler, w http.ResponseWriter, r *http.Request) {
	known := slices.ContainsFunc(paths, func(p string) bool {
		return r.URL.Path == p || strings.HasSuffix(p, "/") && strings.HasPrefix(r.URL.Path, p)
	})
	switch {
	case r.Method == http.MethodHead && !known: // is anybody there
		w.WriteHeader(http.StatusOK)
	case !known:
		refuse(w, http.StatusNotFound, "no path of the model's API: "+r.URL.Path)
	case !g.knows(r.Header):
		refuse(w, http.StatusUnauthorized, "the token is not that of this attempt")
	default:
		proxy.ServeHTTP(w, r)
	}
}

// knows reports whether a request has the token.
func (g *Gateway) knows(h http.Header) bool {
	shown := h.Get("X-Api-Key")
	if shown == "" {
		shown, _ = strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	}
	return subtle.ConstantTimeCompare([]byte(shown), []byte(g.token)) == 1
}

// rewrite aims a request at the upstream, with the key in the place of the token.
func (g *Gateway) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(g.up.URL)
	h := r.Out.Header
	h.Del("X-Api-Key")
	h.Del("Authorization")
	h.Set("Accept-Encoding", "identity") // what is packed cannot be counted
	switch {
	case g.up.Key == "":
	case g.up.Bearer:
		h.Set("Authorization", "Bearer "+g.up.Key)
	default:
		h.Set("X-Api-Key", g.up.Key)
	}
}

// count lets the usage of a response be read while it passes.
func (g *Gateway) count(res *http.Response) error {
	if res.Request.Method == http.MethodPost && res.Request.URL.Path[strings.LastIndexByte(res.Request.URL.Path, '/'):] == "/messages" {
		g.add(Usage{Requests: 1})
		res.Body = &counted{from: res.Body, to: &messages{add: g.add}}
	}
	return nil
}

func (g *Gateway) add(u Usage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used.Requests += u.Requests
	g.used.Input += u.Input
	g.used.Cached += u.Cached
	g.used.Output += u.Output
}

// refuse answers in the form that agents read, see the Messages API.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"error","error":{"type":"plait_gateway","message":%q}}`, why)
}

// cause is an error without the address, which may hold a secret.
func cause(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}

// A counted body is read by the agent, and shown to a counter.
type counted struct {
	from io.ReadCloser
	to   io.Writer
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.to.Write(p[:n]) // it never fails
	return n, err
}

func (c *counted) Close() error { return c.from.Close() }
