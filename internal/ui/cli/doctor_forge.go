package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/forge"
	"github.com/plait-run/plait/internal/app/forge/github"
	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/sys/text"
)

// forgeTime is how long doctor waits for a forge.
const forgeTime = 10 * time.Second

// examineForge asks the forge of this repository whose token there is, and what it lacks. Whoever has no token is told
// what it would be for; nothing is asked then.
func (a *app) examineForge(ctx context.Context) []Finding {
	dir, err := os.Getwd()
	if err != nil {
		return nil
	}
	workspace, err := config.Workspace(dir)
	if err != nil {
		return nil
	}
	settings, err := config.Load(config.UserFile(), config.ProjectFile(workspace), a.getenv)
	if err != nil {
		return nil // said elsewhere
	}
	repo, err := git.Open(ctx, dir)
	if err != nil {
		return nil
	}
	w := &workplace{settings: settings}
	at, err := w.remote(repo)
	if err != nil {
		return nil // pull requests are for repositories that have a remote
	}
	f := Finding{What: "forge", OK: true, Unused: true}
	h, err := hostOf(settings.Forge.V, at.Host)
	if err != nil {
		f.Text, f.Do = err.Error(), a.hint(err)
		return []Finding{f}
	}
	token, from := a.token(h.Kind, at.Host)
	if token == "" {
		f.Text = fmt.Sprintf("no token for %s: plait run --issue and plait task pr need one", at.Host)
		f.Do = "log in with gh, or set " + tokenVars(h.Kind, at.Host)[0]
		return []Finding{f}
	}
	ctx, stop := context.WithTimeout(ctx, forgeTime)
	defer stop()
	f.Unused = false
	who, lacks, err := a.askForge(ctx, h, at, token)
	if err != nil {
		f.OK, f.Warning, f.Text = false, true, err.Error()
		return []Finding{f}
	}
	f.Text = fmt.Sprintf("%s, as %s (token of %s)", at, text.Safe(who), from)
	if lacks != "" {
		f.OK, f.Warning, f.Text, f.Do = false, true, f.Text+", which lacks "+lacks, "give the token "+github.Scopes
	}
	return []Finding{f}
}

// askForge asks a forge whose token there is, and which scope it lacks.
func (a *app) askForge(ctx context.Context, h config.Host, at forge.Place, token string) (who, lacks string, err error) {
	on, err := forgeAt(h.Kind, at, forge.Access{API: h.API, Token: token})
	if err != nil {
		return "", "", err
	}
	if who, err = on.Me(ctx); err != nil {
		return "", "", err
	}
	hub, ok := on.(*github.Hub)
	if !ok {
		return who, "", nil
	}
	scopes, err := hub.Granted(ctx)
	if err != nil || scopes == "" { // a fine-grained token does not say
		return who, "", err
	}
	for s := range strings.SplitSeq(scopes, ",") {
		if s = strings.TrimSpace(s); s == "repo" || s == "public_repo" {
			return who, "", nil
		}
	}
	return who, "the scope repo", nil
}
