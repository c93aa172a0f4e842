// Package forgetest is a forge on 127.0.0.1 for tests, and the promises that every forge keeps.
//
// [Server] speaks the REST APIs of GitHub and of Gitea, as far as Plait uses them, written from their public
// descriptions, and Git over HTTP for the repository behind it. Tests plant issues, comments and checks, read what was
// made, and see each request before and after it takes effect: that is where they kill what sent it. [Run] is the
// suite of promises.
package forgetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/plait-run/plait/internal/app/forge"
)

// Token is the token that the server accepts, and Me is whose it is.
const (
	Token = "test-token-4f1d9c"
	Me    = "ann"
	Owner = "acme"
	Name  = "demo"
)

// A Server is a forge with one repository.
type Server struct {
	URL  string
	Page string // the address of pages; "": URL
	Dir  string // the bare repository
	// Seen is called with each request that changes something, before and after it takes effect, and reports whether the
	// connection is cut instead of going on. Nil: nothing is called.
	Seen func(what string, after bool) (cut bool)

	t    testing.TB
	http *httptest.Server
	mu   sync.Mutex
	Data
}

// Data is what the forge holds.
type Data struct {
	Issues   map[int]*Issue
	Requests []*Request
	Checks   map[string][]*Check // by commit
	Limited  bool                // the next request meets the rate limit
	Broken   int                 // how many of the next requests the server fails
	App      bool                // the token is of an app, which may not ask who it is
	Plain    bool                // the holder of the token does not administer the repository
	next     int64
}

// An Issue is what somebody asks for.
type Issue struct {
	Title, Body, By string
	Labels          []string
	Said            []*Comment
}

// A Request is a pull request.
type Request struct {
	Number             int
	Branch, Base       string
	Title, Body        string
	Draft, Shut, Fused bool
	Said               []*Comment
}

// A Comment is what somebody said; with a file, on a line.
type Comment struct {
	ID           int64
	By, As, Body string // As is what the author is to the repository
	File, Commit string
	Line         int
	Review       bool
	Pending      bool // a review that is not sent yet
	InReplyTo    int64
}

// A Check is a check run. State is queued, or how it ended.
type Check struct {
	ID          int64
	Name, State string
	Log         string
	File        string
	Line        int
}

// New starts a forge whose repository has a commit, and stops it with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, Dir: filepath.Join(t.TempDir(), Owner, Name+".git"), Data: Data{Issues: map[int]*Issue{},
		Checks: map[string][]*Check{}, next: 100}}
	s.git("", "init", "-q", "--bare", "-b", "main", s.Dir)
	s.git(s.Dir, "config", "http.receivepack", "true")
	mux := http.NewServeMux()
	s.routes(mux)
	s.http = httptest.NewServer(mux)
	t.Cleanup(s.http.Close)
	s.URL = s.http.URL
	return s
}

// Remote returns the address of the repository.
func (s *Server) Remote() string { return s.URL + "/" + Owner + "/" + Name + ".git" }

// Place returns where the repository is.
func (s *Server) Place() forge.Place {
	return forge.Place{Host: strings.TrimPrefix(s.URL, "http://"), Owner: Owner, Name: Name}
}

// Access returns how to reach the forge.
func (s *Server) Access() forge.Access { return forge.Access{API: s.URL + "/api/v3/", Token: Token} }

// page returns the address of a page of the repository.
func (s *Server) page(kind string, n int) string {
	return fmt.Sprintf("%s/%s/%s/%s/%d", cmp.Or(s.Page, s.URL), Owner, Name, kind, n)
}

// Change changes what the forge holds, under its lock.
func (s *Server) Change(f func(d *Data)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.Data)
}

// ID returns a new id. It is for use in Change.
func (d *Data) ID() int64 { d.next++; return d.next }

// Head returns the commit that a branch points at, "" if there is none.
func (s *Server) Head(branch string) string {
	out, err := exec.Command("git", "--git-dir", s.Dir, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func (s *Server) git(dir string, args ...string) {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// routes registers the API and the repository.
func (s *Server) routes(mux *http.ServeMux) {
	mux.Handle("/"+Owner+"/"+Name+".git/", s.repository())
	const repo = "/api/v3/repos/" + Owner + "/" + Name
	api := map[string]func(d *Data, r *http.Request) (int, any){
		"GET /api/v3/user":                             s.user,
		"GET " + repo:                                  s.repo,
		"GET " + repo + "/issues/{n}":                  s.issue,
		"GET " + repo + "/issues/{n}/comments":         s.issueComments,
		"POST " + repo + "/issues/{n}/comments":        s.say,
		"GET " + repo + "/pulls":                       s.pulls,
		"POST " + repo + "/pulls":                      s.open,
		"PATCH " + repo + "/pulls/{n}":                 s.edit,
		"GET " + repo + "/pulls/{n}/comments":          s.lineComments,
		"POST " + repo + "/pulls/{n}/comments":         s.replyTo,
		"GET " + repo + "/pulls/{n}/reviews":           s.reviews,
		"GET " + repo + "/commits/{sha}/check-runs":    s.checkRuns,
		"GET " + repo + "/commits/{sha}/status":        s.status,
		"GET " + repo + "/check-runs/{id}/annotations": s.annotations,
	}
	maps.Copy(api, s.giteaRoutes())
	for pattern, do := range api {
		mux.HandleFunc(pattern, s.serve(do))
	}
	mux.HandleFunc("GET "+repo+"/actions/jobs/{id}/logs", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.URL+"/logs/"+r.PathValue("id"), http.StatusFound)
	})
	mux.HandleFunc("GET /logs/{id}", s.log)
}

// serve checks the token, and answers with JSON.
func (s *Server) serve(do func(d *Data, r *http.Request) (int, any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if by := r.Header.Get("Authorization"); by != "Bearer "+Token && by != "token "+Token {
			reply(w, http.StatusUnauthorized, map[string]string{"message": "Bad credentials"})
			return
		}
		what := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/api/v3/repos/"+Owner+"/"+Name)
		s.saw(r.Method, what, false)
		s.mu.Lock()
		code, body := http.StatusForbidden, any(map[string]string{"message": "API rate limit exceeded"})
		if s.Broken > 0 {
			s.Broken--
			code, body = http.StatusBadGateway, nil
		} else if s.Limited {
			s.Limited = false
			w.Header().Set("X-RateLimit-Remaining", "0")
			w.Header().Set("X-RateLimit-Limit", "5000")
			w.Header().Set("X-RateLimit-Reset", "32503680000")
		} else {
			w.Header().Set("X-OAuth-Scopes", "repo")
			code, body = do(&s.Data, r)
		}
		s.mu.Unlock()
		s.saw(r.Method, what, true)
		reply(w, code, body)
	}
}

func (s *Server) saw(method, what string, after bool) {
	if s.Seen != nil && method != http.MethodGet && s.Seen(what, after) {
		panic(http.ErrAbortHandler)
	}
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// repository serves the repository with git's own program.
func (s *Server) repository() http.Handler {
	git, err := exec.LookPath("git")
	if err != nil {
		s.t.Fatal(err)
	}
	h := &cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: []string{
		"GIT_PROJECT_ROOT=" + filepath.Dir(filepath.Dir(s.Dir)), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=" + Me}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		push := strings.HasSuffix(r.URL.Path, "/git-receive-pack")
		if push {
			s.saw("POST", "push", false)
		}
		h.ServeHTTP(w, r)
		if push {
			s.saw("POST", "push", true)
		}
	})
}

func (s *Server) log(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" { // logs are elsewhere, and tokens are not for there
		http.Error(w, "a token", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range s.Checks {
		for _, c := range list {
			if strconv.FormatInt(c.ID, 10) == r.PathValue("id") {
				fmt.Fprint(w, c.Log)
			}
		}
	}
}
