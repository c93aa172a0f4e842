package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/forge"
	"github.com/plait-run/plait/internal/app/forge/gitea"
	"github.com/plait-run/plait/internal/app/forge/github"
	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// tokenVars are the variables that have the token of a forge, the first first.
func tokenVars(kind, host string) []string {
	switch {
	case kind == config.KindGitea:
		return []string{"GITEA_TOKEN"}
	case host == "github.com":
		return []string{"GH_TOKEN", "GITHUB_TOKEN"}
	}
	return []string{"GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"}
}

// token returns the token for a host: of a variable, of the program that the configuration has for it, or of gh. It
// stays in memory, and agents and outputs never have it.
func (a *app) token(kind, host string) (value, from string) {
	for _, name := range tokenVars(kind, host) {
		if value := a.secret(name); value != "" {
			return value, name
		}
	}
	if gh, err := exec.LookPath("gh"); err == nil && kind == config.KindGitHub {
		if value, err := printed([]string{gh, "auth", "token", "--hostname", host}); err == nil {
			a.keys.secrets.Add(value)
			return value, "gh"
		}
	}
	return "", ""
}

// hostOf returns how to reach a host. Tokens go only to hosts that the person's own configuration names.
func hostOf(f config.Forge, host string) (config.Host, error) {
	h, ok := f.Hosts[host]
	if !ok && host != "github.com" {
		return h, view.Advise(usagef("%s is not known as a forge", text.Safe(host)),
			"add it to your own configuration: forge: {hosts: {%q: {kind: github}}}; see docs/howto/pull-request.md", host)
	}
	if !ok {
		h.Kind = config.KindGitHub
	}
	switch {
	case h.API != "":
	case h.Kind == config.KindGitea:
		h.API = gitea.API(host)
	default:
		h.API = github.API(host)
	}
	return h, nil
}

// reach returns a repository on its forge.
func (a *app) reach(w *workplace, at forge.Place) (forge.Forge, error) {
	h, err := hostOf(w.settings.Forge.V, at.Host)
	if err != nil {
		return nil, err
	}
	token, _ := a.token(h.Kind, at.Host)
	if token == "" {
		return nil, view.Advise(usagef("there is no token for %s", text.Safe(at.Host)),
			"log in with `gh auth login --hostname %s`, or set %s", text.Safe(at.Host), tokenVars(h.Kind, at.Host)[0])
	}
	f, err := forgeAt(h.Kind, at, forge.Access{API: h.API, Token: token})
	if err != nil {
		return nil, badUsage{err}
	}
	return f, nil
}

// forgeAt returns a repository on a forge of a kind.
func forgeAt(kind string, at forge.Place, access forge.Access) (forge.Forge, error) {
	if kind == config.KindGitea {
		return gitea.New(at, access)
	}
	return github.New(at, access)
}

// remote returns where the repository of a task, or of the workspace, is on its forge.
func (w *workplace) remote(repo *git.Repo) (forge.Place, error) {
	name := w.settings.Forge.V.Remote
	url, err := repo.Remote(name)
	if err != nil {
		return forge.Place{}, view.Advise(badUsage{err}, "add one with `git remote add %s URL`, or name another as "+
			"forge.remote in the configuration", text.Safe(name))
	}
	at, err := forge.PlaceOf(url)
	if err != nil {
		return at, badUsage{fmt.Errorf("remote %s: %w", name, err)}
	}
	return at, nil
}

// repository opens the repository that a task works in.
func (w *workplace) repository(ctx context.Context, row store.Thread) (*git.Repo, error) {
	dir := row.Workspace
	if row.Tree != "" && !worktree.Own(row) {
		dir = row.Tree
	}
	repo, err := git.Open(ctx, dir)
	if errors.Is(err, git.ErrNone) {
		return nil, usagef("%s is not in a Git repository", text.Safe(dir))
	}
	return repo, err
}

// publisher returns what publishes the change of a task.
func (w *workplace) publisher(ctx context.Context, row store.Thread) (*forge.Publisher, error) {
	repo, err := w.repository(ctx, row)
	return &forge.Publisher{View: w.view(), Repo: repo}, err
}
