// Package gitea is Gitea, and Forgejo, as a forge.
//
// It takes an address, a token and a repository, and keeps the promises of [forge.Forge] with Gitea's REST API
// (version 1), of which it needs a dozen requests. The token stays in memory, and is sent to the host of the API only.
package gitea

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/app/forge"
)

const (
	pageSize = 50
	maxPages = 40
	maxBody  = 32 << 20
)

// A Tea is a repository on Gitea.
type Tea struct {
	http *http.Client
	api  string
	at   forge.Place

	mu     sync.Mutex
	me     string
	writes map[string]bool // by login
}

// API returns the address of the API of a host.
func API(host string) string { return "https://" + host + "/api/v1/" }

// New returns a repository on Gitea. It asks nothing.
func New(at forge.Place, a forge.Access) (*Tea, error) {
	client, err := a.Client("token")
	if err != nil {
		return nil, fmt.Errorf("reach Gitea: %w", err)
	}
	return &Tea{http: client, api: strings.TrimSuffix(a.API, "/") + "/", at: at, writes: map[string]bool{}}, nil
}

// call sends a request, and reads the response into out unless it is nil.
func (t *Tea) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, t.api+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	res, err := t.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	switch {
	case err != nil:
		return err
	case res.StatusCode == http.StatusNotFound:
		return forge.ErrUnknown
	case res.StatusCode == http.StatusTooManyRequests:
		wait, _ := strconv.Atoi(res.Header.Get("Retry-After")) // 0 if it is not said
		return &forge.LimitError{Until: time.Now().Add(time.Duration(cmp.Or(wait, 60)) * time.Second)}
	case res.StatusCode == http.StatusUnauthorized:
		return errors.New("the token is not accepted by Gitea")
	case res.StatusCode == http.StatusForbidden:
		return errForbidden
	case res.StatusCode >= 300:
		return fmt.Errorf("the answer of Gitea: %s", res.Status)
	case out == nil:
		return nil
	}
	return json.Unmarshal(data, out)
}

// Scopes are what a token needs.
const Scopes = "read:user, write:repository and write:issue"

var errForbidden = errors.New("the token may not: it needs " + Scopes)

// repo calls for something in the repository.
func (t *Tea) repo(ctx context.Context, method, path string, in, out any) error {
	return t.call(ctx, method, "repos/"+url.PathEscape(t.at.Owner)+"/"+url.PathEscape(t.at.Name)+path, in, out)
}

// list reads a list page by page, until one is empty: a server may have shorter ones than are asked for.
func list[T any](ctx context.Context, t *Tea, path string) (all []T, err error) {
	sep := "?"
	if strings.Contains(path, "?") {
		sep = "&"
	}
	for page := 1; page <= maxPages; page++ {
		var some []T
		if err := t.repo(ctx, http.MethodGet, fmt.Sprintf("%s%slimit=%d&page=%d", path, sep, pageSize, page), nil,
			&some); err != nil {
			return nil, err
		}
		if len(some) == 0 {
			break
		}
		all = append(all, some...)
	}
	return all, nil
}

type user struct{ Login string }

type comment struct {
	ID      int64
	User    user
	State   string // of a review
	Body    string
	HTMLURL string `json:"html_url"`
	// Of comments on lines:
	Path             string
	Position         int
	OriginalPosition int    `json:"original_position"`
	Commit           string `json:"commit_id"`
	OriginalCommit   string `json:"original_commit_id"`
}

type pull struct {
	Number  int
	HTMLURL string `json:"html_url"`
	State   string
	Merged  bool
	Title   string
	Body    string
	Head    struct {
		Ref  string
		SHA  string
		Repo *struct{ Owner user }
	}
}

// Me returns the login of the holder of the token.
func (t *Tea) Me(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.me == "" {
		var u user
		if err := t.call(ctx, http.MethodGet, "user", nil, &u); err != nil {
			return "", fmt.Errorf("ask Gitea whose token this is: %w", err)
		}
		t.me = u.Login
	}
	return t.me, nil
}

// comment returns a comment, with what its author may do. Gitea tells that to those only who administer the repository;
// for others nobody but who is named steers.
func (t *Tea) comment(ctx context.Context, kind string, c comment) (forge.Comment, error) {
	me, err := t.Me(ctx)
	if err != nil {
		return forge.Comment{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	writes, known := t.writes[c.User.Login]
	if !known {
		var may struct{ Permission string }
		err := t.repo(ctx, http.MethodGet, "/collaborators/"+url.PathEscape(c.User.Login)+"/permission", nil, &may)
		if err != nil && !errors.Is(err, forge.ErrUnknown) && !errors.Is(err, errForbidden) {
			return forge.Comment{}, fmt.Errorf("ask what %s may do: %w", c.User.Login, err)
		}
		writes = may.Permission == "write" || may.Permission == "admin" || may.Permission == "owner"
		t.writes[c.User.Login] = writes
	}
	out := forge.Comment{ID: kind + strconv.FormatInt(c.ID, 10), Author: c.User.Login, Writes: writes,
		Mine: c.User.Login == me, Body: c.Body, URL: c.HTMLURL, File: c.Path}
	if out.Line, out.Commit = c.Position, c.Commit; out.Line == 0 {
		out.Line, out.Commit = c.OriginalPosition, cmp.Or(c.OriginalCommit, c.Commit)
	}
	return out, nil
}

func (t *Tea) comments(ctx context.Context, kind string, said []comment) (all []forge.Comment, err error) {
	for _, c := range said {
		out, err := t.comment(ctx, kind, c)
		if err != nil {
			return nil, err
		}
		all = append(all, out)
	}
	return all, nil
}

// talk returns the comments of an issue, or of a request as a whole. That list has no pages.
func (t *Tea) talk(ctx context.Context, number int) (said []comment, err error) {
	err = t.repo(ctx, http.MethodGet, fmt.Sprintf("/issues/%d/comments", number), nil, &said)
	return said, err
}

// Issue implements [forge.Forge].
func (t *Tea) Issue(ctx context.Context, number int) (forge.Issue, error) {
	var got struct {
		Title, Body string
		HTMLURL     string `json:"html_url"`
		User        user
		Labels      []struct{ Name string }
	}
	fail := func(err error) (forge.Issue, error) {
		return forge.Issue{}, fmt.Errorf("read issue #%d: %w", number, err)
	}
	if err := t.repo(ctx, http.MethodGet, fmt.Sprintf("/issues/%d", number), nil, &got); err != nil {
		return fail(err)
	}
	i := forge.Issue{Number: number, Title: got.Title, Body: got.Body, URL: got.HTMLURL, Author: got.User.Login}
	for _, l := range got.Labels {
		i.Labels = append(i.Labels, l.Name)
	}
	said, err := t.talk(ctx, number)
	if err != nil {
		return fail(err)
	}
	for _, c := range said { // what their authors may do is not asked: an issue steers nobody
		i.Comments = append(i.Comments, forge.Comment{Author: c.User.Login, Body: c.Body, URL: c.HTMLURL})
	}
	return i, nil
}
