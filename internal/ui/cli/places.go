package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/files/git"
	places "github.com/plait-run/plait/internal/files/place"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
)

// openPlace gives a program with a team a place for tasks that belong to no directory of this machine, and returns the
// record as seen with that place.
func (a *app) openPlace(s store.Store, home string) (store.Store, error) {
	if a.program.Team == nil {
		return s, nil
	}
	set, err := config.Load(config.UserFile(), "", a.getenv)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(cmp.Or(a.getenv("PLAIT_PLACES"), filepath.Clean(home)+"-places"))
	if err != nil {
		return nil, err
	}
	team := set.Team.V
	trees := worktree.New(worktree.Config{Discard: set.Discards()})
	left := func(ctx context.Context, row store.Thread) (bool, error) {
		list, err := trees.Existing(ctx, []store.Thread{row})
		return len(list) > 0 && len(list[0].Left) > 0, err
	}
	a.place, err = places.New(places.Config{Dir: dir, Remotes: team.Remotes, Store: s, Most: int64(team.MaxGB) << 30,
		Log: a.log, Left: left, Ended: func(task string) error { return control.RemoveOwn(home, config.ScratchDir(), task) }})
	if err != nil {
		return nil, badUsage{err}
	}
	return a.place.Store(), nil
}

// placed reports whether a directory is in this machine's place. Such a directory contains no project to open.
func (a *app) placed(dir string) bool {
	return a.place != nil && a.place.Has(store.Thread{Workspace: dir})
}

// upload says where the files of a directory go along with a task for workers. It is nil if there is no git: then
// workers need the same directory.
func (a *app) upload(ctx context.Context, w *workplace, dir string) (*control.Upload, error) {
	repo, err := git.Open(ctx, dir)
	if errors.Is(err, git.ErrNone) {
		fmt.Fprintf(a.err, "note: %s is not in a Git repository: only workers whose configuration names it take the task, "+
			"with team: {directories: [%[1]s]}\n", text.Safe(w.workspace))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	set := w.settings.Team.V
	name, err := places.Workspace(teamName(repo, set))
	if err != nil {
		return nil, usagef("%w: give it a name in %s: team: {workspace: NAME}", err, config.ProjectFile(w.workspace))
	}
	return &control.Upload{Workspace: name, Remote: set.Remote, Skipped: func(notes []string) {
		for _, note := range notes {
			fmt.Fprintln(a.err, "warning: "+text.Safe(note))
		}
	}}, nil
}

// handOver says where the files of a task go that is handed to the team; nil if it is already the team's.
func (a *app) handOver(ctx context.Context, w *workplace, row store.Thread) (*control.Upload, error) {
	root, err := w.store.Thread(ctx, row.Root)
	if err != nil || control.Team(root) {
		return nil, err
	}
	dir := worktree.Of(root)
	if _, _, made := worktree.Made(root); made { // agents have worked there: use the workspace
		dir = root.Workspace
	}
	return a.upload(ctx, w, dir)
}

// teamName returns the name by which workers know a project.
func teamName(repo *git.Repo, t config.Team) string {
	return cmp.Or(t.Workspace, repo.Name(cmp.Or(t.Remote, "origin")))
}

// listTeam makes a project's list include the team's tasks, besides those of its directory.
func (a *app) listTeam(ctx context.Context, w *workplace) {
	if repo, err := git.Open(ctx, w.workspace); err == nil {
		a.place.Clone(w.workspace, teamName(repo, w.settings.Team.V))
	}
}

// tidyEvery is how often a worker looks for what is no longer needed.
const tidyEvery = time.Minute

// tidy removes what tasks have left behind in this machine's place, until ctx ends.
func (a *app) tidy(ctx context.Context, log *slog.Logger) {
	for a.place != nil {
		if err := a.place.Sweep(ctx); err != nil && ctx.Err() == nil {
			log.Warn("tidy up "+a.place.Dir(), "error", err)
		}
		select {
		case <-time.After(tidyEvery):
		case <-ctx.Done():
			return
		}
	}
}
