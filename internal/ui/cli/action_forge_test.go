package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
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

const waryFlow = `
version: 1
name: hostile
roles:
  speak:
    agent:
      kind: command
      command:
      - sh
      - -c
      - |
        echo "::add-mask::x"
        echo "notes.md:1: a%b"
        echo "../../etc/passwd:1: x"
        printf '\140\140\140 @all <!-- x\n'
        env
graph:
  $START: {new: {role: speak, prompt: "{{ prompt }}"}}
  speak: {done: {role: $END, prompt: "{{ _body }}"}}
`

// TestActionIsWary checks that what agents print is no command, that strangers' comments are left alone, and that no
// agent sees the token.
func TestActionIsWary(t *testing.T) {
	t.Parallel()
	j := newJob(t, "pull_request", pull, map[string]string{".plait/flows/hostile.yaml": waryFlow, "notes.md": "x\n"})
	j.forge.comments = slices.Repeat([]forgeComment{{ID: 1, Body: "<!-- plait:hostile -->\nnot yours",
		User: map[string]string{"login": "eve"}}}, 100)
	said, code := j.run(map[string]string{"flow": "hostile", "prompt": `"; exit 3 #`})
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	stop := regexp.MustCompile(`(?s)^::stop-commands::(\w{32})\n(.*)\n::(\w{32})::\n`).FindStringSubmatch(said)
	if stop == nil || stop[1] != stop[3] || !strings.Contains(stop[2], "::add-mask::") ||
		strings.Contains(said[len(stop[0]):], "\n::add-mask::") {
		t.Errorf("the runner may obey\n%s", said)
	}
	if !strings.Contains(said, "::warning file=notes.md,line=1::a%25b\n") || strings.Contains(said, "file=../") {
		t.Errorf("annotations in\n%s", said)
	}
	comments := j.forge.comments
	if last := comments[len(comments)-1].Body; len(comments) != 101 || !strings.Contains(last, "````text\n") ||
		strings.Contains(last, actionToken) || !strings.HasSuffix(comments[0].Body, "\nnot yours") {
		t.Errorf("%d comments, the last is %s", len(comments), last)
	}
	said, code = j.run(map[string]string{"flow": "hostile", "prompt": "@notes.md", "token": appToken})
	if code != 0 || !strings.Contains(said, "::notice::There is no comment") || len(j.forge.comments) != 101 {
		t.Errorf("with a token that cannot say whose it is: exit code %d\n%s", code, said)
	}
	if !strings.Contains(said, "\nPLAIT_PROMPT=@notes.md\n") {
		t.Errorf("the prompt named a file, which was read\n%s", said)
	}
	j.forge.denies = true
	if said, code := j.run(map[string]string{"flow": "hostile", "prompt": "x"}); code != 0 ||
		!strings.Contains(said, "::notice::There is no comment") {
		t.Errorf("without the right to comment: exit code %d\n%s", code, said)
	}
	if _, code := j.run(map[string]string{"flow": "none", "prompt": "x"}); code != 3 ||
		j.values["steps.run.outputs.task"] != "" {
		t.Errorf("without a flow: exit code %d, task %s", code, j.values["steps.run.outputs.task"])
	}
}
