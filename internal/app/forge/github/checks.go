package github

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/go-github/v89/github"

	"github.com/plait-run/plait/internal/app/forge"
)

// Checks implements [forge.Forge]: it returns check runs, those of GitHub Actions among them, and commit statuses.
func (h *Hub) Checks(ctx context.Context, commit string) ([]forge.Check, error) {
	what := "read the checks of " + commit
	runs, err := all(func(o github.ListOptions) ([]*github.CheckRun, *github.Response, error) {
		got, res, err := h.client.Checks.ListCheckRunsForRef(ctx, h.owner, h.name, commit,
			&github.ListCheckRunsOptions{ListOptions: o})
		if err != nil {
			return nil, res, err
		}
		return got.CheckRuns, res, nil
	})
	if err != nil {
		return nil, explain(what, err)
	}
	var list []forge.Check
	for _, r := range runs {
		c := forge.Check{ID: "check-" + strconv.FormatInt(r.GetID(), 10), Name: r.GetName(), State: stateOf(r),
			URL: r.GetHTMLURL()}
		if c.State == forge.Failed {
			if err := h.complaint(ctx, r, &c); err != nil {
				return nil, explain(what, err)
			}
		}
		list = append(list, c)
	}
	combined, _, err := h.client.Repositories.GetCombinedStatus(ctx, h.owner, h.name, commit,
		&github.ListOptions{PerPage: pageSize})
	if err != nil {
		return nil, explain(what, err)
	}
	for _, s := range combined.Statuses {
		states := map[string]string{"pending": forge.Pending, "success": forge.Passed}
		c := forge.Check{ID: "status-" + strconv.FormatInt(s.GetID(), 10), Name: s.GetContext(),
			State: states[s.GetState()], URL: s.GetTargetURL(), Log: s.GetDescription()}
		if c.State == "" {
			c.State = forge.Failed
		}
		list = append(list, c)
	}
	return list, nil
}

// stateOf returns the state of a check run. One that did not come to an end has not failed: somebody has to begin it
// again, or to let it go on.
func stateOf(r *github.CheckRun) string {
	if r.GetStatus() != "completed" {
		return forge.Pending
	}
	switch r.GetConclusion() {
	case "cancelled", "stale", "action_required":
		return forge.Pending
	case "success", "neutral", "skipped":
		return forge.Passed
	}
	return forge.Failed
}

// complaint reads what a failed check says: the end of its log, or else its summary, and the first line that it names.
func (h *Hub) complaint(ctx context.Context, r *github.CheckRun, c *forge.Check) error {
	c.Log = strings.TrimSpace(r.GetOutput().GetSummary() + "\n\n" + r.GetOutput().GetText())
	if r.GetOutput().GetAnnotationsCount() > 0 {
		notes, _, err := h.client.Checks.ListCheckRunAnnotations(ctx, h.owner, h.name, r.GetID(),
			&github.ListOptions{PerPage: 20})
		if err != nil {
			return err
		}
		for _, n := range notes {
			if c.File == "" {
				c.File, c.Line = n.GetPath(), n.GetStartLine()
			}
			c.Log += fmt.Sprintf("\n%s:%d: %s", n.GetPath(), n.GetStartLine(), n.GetMessage())
		}
	}
	if r.GetApp().GetSlug() != "github-actions" {
		return nil
	}
	// The id of a check run of GitHub Actions is that of its job. Logs may have expired, or need a further right.
	at, _, err := h.client.Actions.GetWorkflowJobLogs(ctx, h.owner, h.name, r.GetID(), 3)
	if err != nil {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil
	}
	res, err := h.plain.Do(req)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil
	}
	log, err := forge.ReadEnd(res.Body)
	if err == nil {
		c.Log += "\n" + log
	}
	return nil
}
