package gitea

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/app/forge"
)

// draft begins the title of a request that is a draft.
const draft = "WIP: "

// Request implements [forge.Forge].
func (t *Tea) Request(ctx context.Context, branch string) (forge.Request, error) {
	pulls, err := list[pull](ctx, t, "/pulls?state=all&sort=recentupdate")
	if err != nil {
		return forge.Request{}, fmt.Errorf("find the pull request of %s: %w", branch, err)
	}
	best := pull{}
	for _, p := range pulls {
		ours := p.Head.Repo != nil && strings.EqualFold(p.Head.Repo.Owner.Login, t.at.Owner)
		if ours && p.Head.Ref == branch && p.Number > best.Number {
			best = p
		}
	}
	if best.Number == 0 {
		return forge.Request{}, fmt.Errorf("find the pull request of %s: %w", branch, forge.ErrUnknown)
	}
	return best.request(), nil
}

func (p pull) request() forge.Request {
	r := forge.Request{Number: p.Number, URL: p.HTMLURL, State: p.State, Head: p.Head.SHA, Body: p.Body}
	r.Title, r.Draft = strings.CutPrefix(p.Title, draft)
	if p.Merged {
		r.State = forge.Merged
	}
	return r
}

// Create implements [forge.Forge].
func (t *Tea) Create(ctx context.Context, d forge.Draft) (forge.Request, error) {
	repo := struct {
		Base string `json:"default_branch"`
	}{d.Base}
	var made pull
	var err error
	if repo.Base == "" {
		err = t.repo(ctx, http.MethodGet, "", nil, &repo)
	}
	if err == nil {
		err = t.repo(ctx, http.MethodPost, "/pulls", map[string]string{"title": draft + d.Title, "body": d.Body,
			"head": d.Branch, "base": repo.Base}, &made)
	}
	if err != nil {
		return forge.Request{}, fmt.Errorf("open a pull request: %w", err)
	}
	return made.request(), nil
}

// Update implements [forge.Forge]. A draft stays one.
func (t *Tea) Update(ctx context.Context, number int, title, body string) error {
	path := fmt.Sprintf("/pulls/%d", number)
	var now pull
	err := t.repo(ctx, http.MethodGet, path, nil, &now)
	if err == nil {
		if now.request().Draft {
			title = draft + title
		}
		err = t.repo(ctx, http.MethodPatch, path, map[string]string{"title": title, "body": body}, nil)
	}
	if err != nil {
		return fmt.Errorf("update pull request #%d: %w", number, err)
	}
	return nil
}

// Comments implements [forge.Forge].
func (t *Tea) Comments(ctx context.Context, number int) ([]forge.Comment, error) {
	var all []forge.Comment
	said, err := t.talk(ctx, number)
	if err == nil {
		all, err = t.comments(ctx, "comment-", said)
	}
	if err == nil {
		err = t.reviews(ctx, number, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("read the comments of pull request #%d: %w", number, err)
	}
	return all, nil
}

// reviews adds what reviews say, as a whole and about lines.
func (t *Tea) reviews(ctx context.Context, number int, all *[]forge.Comment) error {
	reviews, err := list[comment](ctx, t, fmt.Sprintf("/pulls/%d/reviews", number))
	if err != nil {
		return err
	}
	for _, r := range reviews {
		if r.State == "PENDING" { // nobody but its author sees it
			continue
		}
		if r.Body != "" {
			c, err := t.comment(ctx, "review-", comment{ID: r.ID, User: r.User, Body: r.Body, HTMLURL: r.HTMLURL})
			if err != nil {
				return err
			}
			*all = append(*all, c)
		}
		var said []comment
		if err := t.repo(ctx, http.MethodGet, fmt.Sprintf("/pulls/%d/reviews/%d/comments", number, r.ID), nil,
			&said); err != nil {
			return err
		}
		lines, err := t.comments(ctx, "line-", said)
		if err != nil {
			return err
		}
		*all = append(*all, lines...)
	}
	return nil
}

// Reply implements [forge.Forge]. Gitea's API has no threads: the reply is about the whole, and links to the comment.
func (t *Tea) Reply(ctx context.Context, number int, to forge.Comment, body string) error {
	if to.File != "" {
		body += "\n" + to.URL + "\n"
	}
	err := t.repo(ctx, http.MethodPost, fmt.Sprintf("/issues/%d/comments", number), map[string]string{"body": body}, nil)
	if err != nil {
		return fmt.Errorf("reply to %s: %w", to.URL, err)
	}
	return nil
}

// Checks implements [forge.Forge]: it returns commit statuses, those of Gitea Actions among them.
func (t *Tea) Checks(ctx context.Context, commit string) ([]forge.Check, error) {
	type status struct {
		ID          int64
		Context     string
		Status      string
		Description string
		TargetURL   string `json:"target_url"`
	}
	all, err := list[status](ctx, t, "/commits/"+url.PathEscape(commit)+"/statuses?sort=newest")
	if err != nil {
		return nil, fmt.Errorf("read the checks of %s: %w", commit, err)
	}
	var checks []forge.Check
	seen := map[string]bool{}
	for _, s := range all {
		if seen[s.Context] {
			continue // an older state
		}
		seen[s.Context] = true
		states := map[string]string{"pending": forge.Pending, "success": forge.Passed, "warning": forge.Passed,
			"skipped": forge.Passed}
		c := forge.Check{ID: "status-" + strconv.FormatInt(s.ID, 10), Name: s.Context, State: states[s.Status],
			URL: s.TargetURL, Log: s.Description}
		if c.State == "" {
			c.State = forge.Failed
		}
		checks = append(checks, c)
	}
	return checks, nil
}
