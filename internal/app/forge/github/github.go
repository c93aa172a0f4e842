// Package github is GitHub, and GitHub Enterprise, as a forge.
//
// It takes an address, a token and a repository, and keeps the promises of [forge.Forge] with GitHub's REST API. The
// token stays in memory, and is sent to the host of the API only.
package github

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-github/v89/github"

	"github.com/plait-run/plait/internal/app/forge"
)

// pageSize is how much is asked for at once, and maxPages how often.
const (
	pageSize = 100
	maxPages = 20
)

// A Hub is a repository on GitHub.
type Hub struct {
	client *github.Client
	plain  *http.Client // without the token
	owner  string
	name   string

	mu sync.Mutex
	me string // the holder of the token, "" until that is known
}

// API returns the address of the API of a host.
func API(host string) string {
	if host == "github.com" {
		return "https://api.github.com/"
	}
	return "https://" + host + "/api/v3/"
}

// New returns a repository on GitHub. It asks nothing.
func New(at forge.Place, a forge.Access) (*Hub, error) {
	api := strings.TrimSuffix(a.API, "/") + "/"
	sends, err := a.Client("Bearer")
	if err != nil {
		return nil, fmt.Errorf("reach GitHub: %w", err)
	}
	client, err := github.NewClient(github.WithHTTPClient(sends), github.WithURLs(&api, &api),
		github.WithUserAgent("plait"))
	if err != nil {
		return nil, fmt.Errorf("reach GitHub: %w", err)
	}
	return &Hub{client: client, plain: &http.Client{Timeout: sends.Timeout}, owner: at.Owner, name: at.Name}, nil
}

// explain says what failed.
func explain(what string, err error) error {
	if err == nil {
		return nil
	}
	var rate *github.RateLimitError
	var abuse *github.AbuseRateLimitError
	var said *github.ErrorResponse
	switch {
	case errors.As(err, &rate):
		err = &forge.LimitError{Until: rate.Rate.Reset.Time}
	case errors.As(err, &abuse):
		wait := time.Minute
		if abuse.RetryAfter != nil {
			wait = *abuse.RetryAfter
		}
		err = &forge.LimitError{Until: time.Now().Add(wait)}
	case errors.As(err, &said) && said.Response.StatusCode == http.StatusNotFound:
		err = forge.ErrUnknown
	case errors.As(err, &said) && said.Response.StatusCode == http.StatusUnauthorized:
		err = fmt.Errorf("GitHub does not accept the token: %s", said.Message)
	case errors.As(err, &said) && said.Response.StatusCode == http.StatusForbidden:
		err = fmt.Errorf("the token may not: %s: it needs %s", said.Message, Scopes)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Scopes are what a token needs.
const Scopes = "the scope repo; or, if it is fine-grained, contents and pull requests: write, issues, checks, commit " +
	"statuses and actions: read"

// all reads a list page by page.
func all[T any](read func(github.ListOptions) ([]T, *github.Response, error)) (list []T, err error) {
	o := github.ListOptions{PerPage: pageSize}
	for range maxPages {
		page, res, err := read(o)
		if err != nil {
			return nil, err
		}
		list = append(list, page...)
		if o.Page = res.NextPage; o.Page == 0 {
			break
		}
	}
	return list, nil
}

// Me returns the login of the holder of the token. The token of a job of GitHub Actions may not ask.
func (h *Hub) Me(ctx context.Context) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.me != "" {
		return h.me, nil
	}
	user, _, err := h.client.Users.Get(ctx, "")
	var said *github.ErrorResponse
	switch {
	case err == nil:
		h.me = user.GetLogin()
	case errors.As(err, &said) && said.Response.StatusCode == http.StatusForbidden && os.Getenv("GITHUB_ACTIONS") != "":
		h.me = "github-actions[bot]" // unless it is that of another app, see Reply
	default:
		return "", explain("ask GitHub whose token this is", err)
	}
	return h.me, nil
}

// Granted returns the scopes of the token, as GitHub names them; "" if the token is fine-grained.
func (h *Hub) Granted(ctx context.Context) (string, error) {
	_, res, err := h.client.Repositories.Get(ctx, h.owner, h.name)
	if err != nil {
		return "", explain("read "+h.owner+"/"+h.name, err)
	}
	return res.Header.Get("X-OAuth-Scopes"), nil
}

// Issue implements [forge.Forge].
func (h *Hub) Issue(ctx context.Context, number int) (forge.Issue, error) {
	what := fmt.Sprintf("read issue #%d", number)
	me, err := h.Me(ctx)
	if err != nil {
		return forge.Issue{}, err
	}
	got, _, err := h.client.Issues.Get(ctx, h.owner, h.name, number)
	if err != nil {
		return forge.Issue{}, explain(what, err)
	}
	i := forge.Issue{Number: number, Title: got.GetTitle(), Body: got.GetBody(), URL: got.GetHTMLURL(),
		Author: got.GetUser().GetLogin()}
	for _, l := range got.Labels {
		i.Labels = append(i.Labels, l.GetName())
	}
	i.Comments, err = h.talk(ctx, number, me)
	return i, explain(what, err)
}

// talk returns the comments of an issue, or of a request as a whole.
func (h *Hub) talk(ctx context.Context, number int, me string) (list []forge.Comment, err error) {
	said, err := all(func(o github.ListOptions) ([]*github.IssueComment, *github.Response, error) {
		return h.client.Issues.ListComments(ctx, h.owner, h.name, number, &github.IssueListCommentsOptions{ListOptions: o})
	})
	for _, c := range said {
		list = append(list, forge.Comment{ID: "comment-" + strconv.FormatInt(c.GetID(), 10), Author: c.GetUser().GetLogin(),
			Writes: writes(c.GetAuthorAssociation()), Mine: c.GetUser().GetLogin() == me, Body: c.GetBody(),
			URL: c.GetHTMLURL()})
	}
	return list, err
}

// writes reports whether an association lets people write to the repository.
func writes(association string) bool {
	return slices.Contains([]string{"OWNER", "MEMBER", "COLLABORATOR"}, association)
}

// Request implements [forge.Forge].
func (h *Hub) Request(ctx context.Context, branch string) (forge.Request, error) {
	what := "find the pull request of " + branch
	list, _, err := h.client.PullRequests.List(ctx, h.owner, h.name, &github.PullRequestListOptions{
		State: "all", Head: h.owner + ":" + branch, Sort: "created", Direction: "desc"})
	if err != nil {
		return forge.Request{}, explain(what, err)
	}
	for _, r := range list { // an older GitHub Enterprise may not filter
		if r.GetHead().GetRef() == branch && strings.EqualFold(r.GetHead().GetRepo().GetOwner().GetLogin(), h.owner) {
			return requestOf(r), nil
		}
	}
	return forge.Request{}, explain(what, forge.ErrUnknown)
}

func requestOf(r *github.PullRequest) forge.Request {
	state := r.GetState()
	if r.MergedAt != nil {
		state = forge.Merged
	}
	return forge.Request{Number: r.GetNumber(), URL: r.GetHTMLURL(), State: state, Draft: r.GetDraft(),
		Head: r.GetHead().GetSHA(), Title: r.GetTitle(), Body: r.GetBody()}
}

// Create implements [forge.Forge].
func (h *Hub) Create(ctx context.Context, d forge.Draft) (forge.Request, error) {
	base, draft := d.Base, true
	if base == "" {
		repo, _, err := h.client.Repositories.Get(ctx, h.owner, h.name)
		if err != nil {
			return forge.Request{}, explain("open a pull request", err)
		}
		base = repo.GetDefaultBranch()
	}
	r, _, err := h.client.PullRequests.Create(ctx, h.owner, h.name, &github.NewPullRequest{Title: &d.Title,
		Head: &d.Branch, Base: &base, Body: &d.Body, Draft: &draft})
	if err != nil {
		return forge.Request{}, explain("open a pull request", err)
	}
	return requestOf(r), nil
}

// Update implements [forge.Forge].
func (h *Hub) Update(ctx context.Context, number int, title, body string) error {
	_, _, err := h.client.PullRequests.Edit(ctx, h.owner, h.name, number, &github.PullRequest{Title: &title, Body: &body})
	return explain(fmt.Sprintf("update pull request #%d", number), err)
}

// Comments implements [forge.Forge].
func (h *Hub) Comments(ctx context.Context, number int) ([]forge.Comment, error) {
	what := fmt.Sprintf("read the comments of pull request #%d", number)
	me, err := h.Me(ctx)
	if err != nil {
		return nil, err
	}
	list, err := h.talk(ctx, number, me)
	if err != nil {
		return nil, explain(what, err)
	}
	reviews, err := all(func(o github.ListOptions) ([]*github.PullRequestReview, *github.Response, error) {
		return h.client.PullRequests.ListReviews(ctx, h.owner, h.name, number, &o)
	})
	if err != nil {
		return nil, explain(what, err)
	}
	for _, r := range reviews {
		if r.GetState() == "PENDING" || r.GetBody() == "" {
			continue
		}
		list = append(list, forge.Comment{ID: "review-" + strconv.FormatInt(r.GetID(), 10), Author: r.GetUser().GetLogin(),
			Writes: writes(r.GetAuthorAssociation()), Mine: r.GetUser().GetLogin() == me, Body: r.GetBody(),
			URL: r.GetHTMLURL()})
	}
	lines, err := all(func(o github.ListOptions) ([]*github.PullRequestComment, *github.Response, error) {
		return h.client.PullRequests.ListComments(ctx, h.owner, h.name, number,
			&github.PullRequestListCommentsOptions{ListOptions: o})
	})
	for _, c := range lines {
		list = append(list, forge.Comment{ID: "line-" + strconv.FormatInt(c.GetID(), 10), Author: c.GetUser().GetLogin(),
			Thread: cmp.Or(c.GetInReplyTo(), c.GetID()), Writes: writes(c.GetAuthorAssociation()),
			Mine: c.GetUser().GetLogin() == me, Body: c.GetBody(),
			URL:  c.GetHTMLURL(),
			File: c.GetPath(), Line: cmp.Or(c.GetLine(), c.GetOriginalLine()),
			Commit: commitOf(c)})
	}
	return list, explain(what, err)
}

// commitOf returns the commit whose line a comment names.
func commitOf(c *github.PullRequestComment) string {
	if c.GetLine() == 0 {
		return c.GetOriginalCommitID()
	}
	return c.GetCommitID()
}

// Reply implements [forge.Forge]. A reply whose author is not who Me says would not be known as ours again: that is an
// error, so that it is not made once more.
func (h *Hub) Reply(ctx context.Context, number int, to forge.Comment, body string) error {
	var made interface{ GetUser() *github.User }
	var err error
	if to.Thread != 0 {
		made, _, err = h.client.PullRequests.CreateCommentInReplyTo(ctx, h.owner, h.name, number, body, to.Thread)
	} else {
		made, _, err = h.client.Issues.CreateComment(ctx, h.owner, h.name, number, &github.IssueComment{Body: &body})
	}
	if err != nil {
		return explain("reply to "+to.URL, err)
	}
	me, err := h.Me(ctx)
	if by := made.GetUser().GetLogin(); err == nil && by != me {
		return fmt.Errorf("the reply to %s is by %s, and would not be known again: use a token of a person", to.URL, by)
	}
	return err
}
