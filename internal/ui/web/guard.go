package web

import (
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	"github.com/plait-run/plait/internal/view/taskdir"
)

// A guard checks every request before anything else.
//
// It lets a request pass only if its Host is one of ours, which protects against DNS rebinding; if
// it has the cookie, which only the one-time URL gives out; and, if it would change something, if
// one of our pages sent it or no page at all.
type guard struct {
	hosts  map[string]bool
	cookie string // name; all ports of a host share cookies
	secret string // its value
	addr   string
	// program is how users invoke it.
	program taskdir.Program

	mu     sync.Mutex
	tokens map[string]string // by unused one-time token, the page to redirect to
}

// mostTokens limits unused one-time URLs.
const mostTokens = 100

// newGuard returns the guard of a listener. The cookie's value is stored in a file in home that only
// its owner can read, so that open pages survive a restart.
func newGuard(addr net.Addr, home string, program taskdir.Program) (*guard, error) {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("listen on %s: only addresses of this machine are served: "+
			"anyone who can reach it would see everything", addr)
	}
	g := &guard{hosts: map[string]bool{addr.String(): true}, cookie: "plait-" + port, addr: addr.String(),
		program: program,
		tokens:  map[string]string{}}
	for _, name := range []string{"127.0.0.1", "localhost", "[::1]"} {
		g.hosts[name+":"+port] = true
		if port == "80" {
			g.hosts[name] = true // browsers omit the default port
		}
	}
	if home == "" {
		g.secret = newSecret()
		return g, nil
	}
	g.secret, err = keptSecret(filepath.Join(home, "ui.key"))
	return g, err
}

// url returns a URL that logs a browser in and redirects to a page. It works once.
func (g *guard) url(page string) string {
	token := newSecret()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.tokens) >= mostTokens {
		clear(g.tokens)
	}
	g.tokens[token] = page
	u := url.URL{Scheme: "http", Host: g.addr, Path: "/", RawQuery: "token=" + token}
	return u.String()
}

// wrap returns h with the guard in front.
func (g *guard) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("X-Frame-Options", "DENY")
		head.Set("Referrer-Policy", "same-origin") // without any, browsers do not say where a form comes from
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Cache-Control", "no-store")
		head.Set("Content-Security-Policy", pagePolicy)
		switch {
		case r.URL.Host != "" || !g.hosts[r.Host]:
			g.refuse(w, http.StatusForbidden, "this server answers only to the address that plait ui printed")
		case r.URL.Path != "/" && r.URL.Query().Has("token"):
			g.refuse(w, http.StatusForbidden, "a token is taken at / only")
		case r.URL.Query().Has("token"):
			g.enter(w, r)
		case r.URL.Path == entryPath:
			g.entry(w, r)
		case !g.known(r):
			g.refuse(w, http.StatusUnauthorized,
				"open the address that plait ui printed; it works once, and plait ui prints a new one")
		case !ours(r):
			g.refuse(w, http.StatusForbidden, "the request comes from another page")
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// pagePolicy restricts our pages to content from this server.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ours reports whether a request that would change something was sent by one of our pages, or by
// no page at all. Browsers state where such a request comes from.
func ours(r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return false
		}
	}
	for _, origin := range r.Header.Values("Origin") {
		if origin != "http://"+r.Host {
			return false
		}
	}
	return true
}

// known reports whether a request has the cookie.
func (g *guard) known(r *http.Request) bool {
	for _, c := range r.CookiesNamed(g.cookie) {
		if subtle.ConstantTimeCompare([]byte(c.Value), []byte(g.secret)) == 1 {
			return true
		}
	}
	return false
}

// enter exchanges the token of the one-time URL for the cookie.
func (g *guard) enter(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		g.refuse(w, http.StatusMethodNotAllowed, "the address is for a browser to open")
		return
	}
	fits, start := false, "/"
	g.mu.Lock()
	for token, page := range g.tokens {
		if subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("token")), []byte(token)) == 1 {
			fits, start = true, page
			delete(g.tokens, token)
		}
	}
	g.mu.Unlock()
	if !fits && !g.known(r) { // a browser that is logged in may reuse the URL
		g.refuse(w, http.StatusUnauthorized,
			"this address was used already; run plait ui again, or use the window that is open")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.secret, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, MaxAge: 30 * 24 * 3600})
	http.Redirect(w, r, start, http.StatusSeeOther)
}

// refuse responds in plain text: there is no page to show.
func (g *guard) refuse(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprintln(w, g.program.Says(why))
}

// entry serves entryPath.
func (g *guard) entry(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch page, nonce := q.Get("page"), q.Get("nonce"); {
	case r.Method == http.MethodGet && len(nonce) == 2*secretBytes:
		fmt.Fprintln(w, proof(g.secret, g.addr, nonce))
	case r.Method != http.MethodPost:
		g.refuse(w, http.StatusNotFound, "there is nothing here")
	case !g.known(r) || !ours(r):
		g.refuse(w, http.StatusUnauthorized, "only plait open run by the same user is allowed")
	case !strings.HasPrefix(page, "/") || strings.HasPrefix(page, "//") || strings.ContainsAny(page, "\\?#"):
		g.refuse(w, http.StatusBadRequest, "the page must be a path of this server")
	default:
		fmt.Fprintln(w, g.url(page))
	}
}
