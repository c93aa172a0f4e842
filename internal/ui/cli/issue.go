package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/app/forge"
	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/sys/text"
)

// issue reads the issue that run names. It returns the prompt, and the flow if none was named, and lets the task link
// back.
func (a *app) issue(ctx context.Context, f *runFlags, opts *control.Options, prompt string, flows []string) (string,
	[]string, error) {
	w, err := a.open(ctx, f.dir)
	if err != nil {
		return "", nil, err
	}
	repo, err := git.Open(ctx, w.dir)
	var here forge.Place
	if err == nil {
		here, err = w.remote(repo)
	}
	at, number, badIssue := forge.ParseIssue(f.issue, here)
	switch {
	case badIssue != nil:
		return "", nil, usagef("--issue: %w", badIssue)
	case at != (forge.Place{}): // an address needs no repository
	case errors.Is(err, git.ErrNone):
		return "", nil, usagef("--issue %d: %s is not in a Git repository; give the address of the issue", number,
			text.Safe(w.dir))
	default:
		return "", nil, err
	}
	on, err := a.reach(w, at)
	if err != nil {
		return "", nil, err
	}
	i, err := on.Issue(ctx, number)
	if err != nil {
		return "", nil, err
	}
	opts.Forge = &record.Forge{Issue: i.URL}
	for _, l := range i.Labels {
		if flow := w.settings.Forge.V.Labels[l]; flow != "" && len(flows) == 0 {
			flows = []string{flow}
			if !a.json && !f.quiet {
				fmt.Fprintf(a.err, "note: the label %s means the flow %s\n", text.Safe(l), text.Safe(flow))
			}
		}
	}
	return forge.Ask(i, prompt), flows, nil
}
