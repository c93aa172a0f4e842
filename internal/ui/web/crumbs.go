package web

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/plait-run/plait/internal/record/store"
)

// callName returns the short id of a task, or the full id if there is none.
func callName(row store.Thread) string {
	if row.Short != "" {
		return row.Short
	}
	return row.ID
}

// shownSteps limits the steps on a thread's page.
const shownSteps = 100

// stepLink returns the URL of a step on the page of its thread.
func stepLink(thread string, n int) string {
	if n < 1 {
		return "/threads/" + thread + "?from=1"
	}
	return fmt.Sprintf("/threads/%s?from=%d#s%d", thread, (n-1)/shownSteps*shownSteps+1, n)
}

// threadName returns the name of a thread, as users type it.
func threadName(row store.Thread) string {
	switch {
	case row.Path != nil:
		return row.Path.ID
	case row.Kind != store.KindRoot:
		return row.Flow
	}
	return "Main thread"
}

// speaker returns the instance that makes the steps of a thread, "" if it depends on the role.
func speaker(row store.Thread) string {
	if row.Path == nil {
		return ""
	}
	return row.Path.ID
}

// breadcrumb returns the breadcrumb of a thread: the stack of its callers, each with the step of the
// call.
func (s *Server) breadcrumb(ctx context.Context, row store.Thread) ([]crumb, error) {
	back := []crumb{{threadName(row), ""}}
	for row.Parent != nil && len(back) <= 100 {
		n, err := s.cfg.Reader.Length(ctx, row.Parent.From)
		if err != nil {
			return nil, err
		}
		if row, err = s.cfg.Store.Thread(ctx, row.Parent.Thread); err != nil {
			return nil, err
		}
		at := " at step " + strconv.Itoa(n)
		if n == 0 {
			at = " at its start"
		}
		back = append(back, crumb{threadName(row) + at, stepLink(row.ID, n)})
	}
	title, err := s.views.Title(ctx, row)
	if err != nil {
		return nil, err
	}
	back = append(back, crumb{line(60, title), "/tasks/" + row.ID}, crumb{"Tasks", "/tasks"})
	slices.Reverse(back)
	return back, nil
}

// stepName returns the name of a step, as users type it: "k7f2/3", "k7f2/mend/3".
func (s *Server) stepName(ctx context.Context, row store.Thread, n int) (string, error) {
	root := row
	if row.Root != row.ID {
		var err error
		if root, err = s.cfg.Store.Thread(ctx, row.Root); err != nil {
			return "", err
		}
	}
	name := callName(root)
	if row.Path != nil {
		name += "/" + row.Path.ID
	}
	return fmt.Sprintf("%s/%d", name, n), nil
}
