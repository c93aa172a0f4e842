package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// An actionForge takes comments as GitHub's API does.
type actionForge struct {
	server   *httptest.Server
	mu       sync.Mutex
	comments []forgeComment
	denies   bool // it takes none
}

type forgeComment struct {
	ID   int               `json:"id"`
	Body string            `json:"body"`
	User map[string]string `json:"user"`
}

func newForge(t *testing.T) *actionForge {
	f := &actionForge{comments: []forgeComment{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /user", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	mux.HandleFunc("GET /repos/ann/notes/issues/7/comments", func(w http.ResponseWriter, r *http.Request) {
		var page int
		fmt.Sscan(r.FormValue("page"), &page)
		from := min((page-1)*100, len(f.comments))
		json.NewEncoder(w).Encode(f.comments[from:min(from+100, len(f.comments))])
	})
	mux.HandleFunc("POST /repos/ann/notes/issues/7/comments", func(w http.ResponseWriter, r *http.Request) {
		c := forgeComment{ID: len(f.comments) + 1, User: map[string]string{"login": "github-actions[bot]"}}
		json.NewDecoder(r.Body).Decode(&c)
		f.comments = append(f.comments, c)
		json.NewEncoder(w).Encode(c)
	})
	mux.HandleFunc("PATCH /repos/ann/notes/issues/comments/{id}", func(w http.ResponseWriter, r *http.Request) {
		var id int
		fmt.Sscan(r.PathValue("id"), &id)
		json.NewDecoder(r.Body).Decode(&f.comments[id-1])
		json.NewEncoder(w).Encode(f.comments[id-1])
	})
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		by := r.Header.Get("Authorization")
		if f.denies || by != "Bearer "+actionToken && by != "Bearer "+appToken {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(f.server.Close)
	return f
}

// pull is the event of a pull request.
const pull = `{"pull_request": {"number": 7}}`
