package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/forge"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// A requested is what task pr prints.
type requested struct {
	committed
	Request forge.Request `json:"request"`
	Created bool          `json:"created"`
	Updated bool          `json:"updated"` // its title and body were
	Edited  bool          `json:"edited"`  // by somebody on the forge, so that they stay
}

// says tells what was done.
func (v requested) says() string {
	verb := "up to date:"
	switch {
	case v.Created:
		verb = "opened"
	case v.Updated:
		verb = "updated"
	case v.Edited:
		verb = "up to date, but for the title and body, which were edited there and stay:"
	}
	return v.committed.says() + "\n" + verb + " " + text.Safe(v.Request.URL)
}

// prFlags are the flags of task pr.
type prFlags struct {
	yes   bool
	proof string
}

func (a *app) taskPRCmd() *cobra.Command {
	var f prFlags
	cmd := &cobra.Command{
		Use:   "pr [TASK]",
		Short: "Open a draft pull request with what a task changed, or update it",
		Long: `Commit what a task changed, as plait task commit does, push its branch, and open a draft pull request on
the forge of the remote, GitHub or Gitea. If there is one, its title and body are updated, unless somebody
edited them there. Repeating the command doubles nothing, and nothing is ever merged.

Its base is the branch of the remote that the one you are on follows, if that has the commit that the
change goes onto, else the default branch. If the remote does not have that commit, nothing is pushed:
commits of your own are for you to push.

The body is the report: the result, the commands that ran on exactly these files, the steps with their
agents and sandboxes, what is not known, and how to verify it. With --proof FILE it names the SHA-256
of a proof, which is written to FILE as plait attest does, unless FILE exists.

The token is that of GH_TOKEN, GITHUB_TOKEN, the program that keys has for one of them, or gh. Agents
never get it. The branch is pushed as your own git pushes.`,
		Example: `  plait task pr
  plait task pr k7f2 --proof change.plait`,
		Args:              atMost(1, "one task"),
		ValidArgsFunction: a.completeThreads(),
		RunE: readTask(a, func(ctx context.Context, w *workplace, row store.Thread) (requested, error) {
			return a.openRequest(ctx, w, row, f, a.agreement(f.yes))
		}, func(out page, v requested) { out.line("%s", v.says()) }),
	}
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "commit protected files without asking")
	cmd.Flags().StringVar(&f.proof, "proof", "", "name the SHA-256 of this proof, and write the `file` if there is none")
	cmd.MarkFlagFilename("proof", "plait")
	return cmd
}

// openRequest commits and pushes the change of a task, and opens its request or updates it.
func (a *app) openRequest(ctx context.Context, w *workplace, row store.Thread, f prFlags, agree agreement) (
	done requested, err error) {
	p, err := w.publisher(ctx, row)
	if err != nil {
		return done, err
	}
	at, err := w.remote(p.Repo)
	if err != nil {
		return done, err
	}
	on, err := a.reach(w, at)
	if err != nil {
		return done, err
	}
	var c forge.Change
	if done.committed, c, err = a.commitTask(ctx, w, p, row, agree); err != nil {
		return done, err
	}
	lease, err := w.onlyOne(ctx, c.Branch)
	if err != nil {
		return done, err
	}
	defer lease.Release()
	r, err := p.Report(ctx, c, w.settings.Forge.V.Costs)
	if err == nil && f.proof != "" {
		r.Proof, err = a.proofOf(ctx, w, c, f.proof)
	}
	if err != nil {
		return done, err
	}
	return done, a.request(ctx, w, p, on, c, r, &done)
}

// publish commits or requests for the page.
func (a *app) publish(ctx context.Context, row store.Thread, request, protected bool) (did, url string, err error) {
	w, err := a.open(ctx, row.Workspace)
	if err != nil {
		return "", "", err
	}
	agree := func(files []string) error {
		if protected {
			return nil
		}
		return usagef("nothing was committed: programs or instructions are taken from %s; allow that",
			text.Safe(strings.Join(files, ", ")))
	}
	if request {
		done, err := a.openRequest(ctx, w, row, prFlags{}, agree)
		return done.says(), done.Request.URL, err
	}
	p, err := w.publisher(ctx, row)
	if err != nil {
		return "", "", err
	}
	done, _, err := a.commitTask(ctx, w, p, row, agree)
	return done.says(), "", err
}

// request pushes a branch, and opens its request or updates it.
func (a *app) request(ctx context.Context, w *workplace, p *forge.Publisher, on forge.Forge, c forge.Change,
	r forge.Report, done *requested) error {
	there, err := on.Request(ctx, c.Branch) // before the push: the forge may not be reached at all
	switch {
	case errors.Is(err, forge.ErrUnknown):
		done.Created = true
	case err != nil:
		return err
	case there.State != forge.Open:
		return usagef("pull request #%d of %s is %s; nothing was pushed", there.Number, c.Branch, there.State)
	case forge.Marked("request", there.Body) == "":
		return usagef("pull request #%d of %s was not opened by Plait; nothing was pushed", there.Number, c.Branch)
	}
	base := ""
	if done.Created {
		if base, err = p.Base(ctx, c, w.settings.Forge.V.Remote); err != nil {
			return err
		}
	}
	if there.Head != c.Tip() {
		if err := p.Repo.Push(ctx, w.settings.Forge.V.Remote, c.Branch); err != nil {
			return err
		}
	}
	title, body := forge.Title(r), forge.Body(r)
	if done.Created {
		done.Request, err = on.Create(ctx, forge.Draft{Branch: c.Branch, Base: base, Title: title, Body: body})
		return err
	}
	done.Request = there
	done.Request.Head = c.Tip()
	if there.Body == body || forge.Marked("request", there.Body) != r.Task { // a round is told in its replies
		return nil
	}
	if done.Edited = forge.Edited(there); done.Edited {
		return nil
	}
	err = on.Update(ctx, there.Number, title, body)
	done.Updated = err == nil
	return err
}

// onlyOne makes sure that no other process publishes a branch.
func (w *workplace) onlyOne(ctx context.Context, branch string) (store.Lease, error) {
	lease, err := w.store.Acquire(ctx, "pr-"+dag.Sum([]byte(branch)).Short())
	var held *store.HeldError
	if errors.As(err, &held) {
		return nil, view.Advise(fmt.Errorf("another process publishes %s: %w", branch, store.ErrConflict), "wait for it")
	}
	return lease, err
}

// proofOf returns the SHA-256 of the proof of a change. It writes the file if there is none.
func (a *app) proofOf(ctx context.Context, w *workplace, c forge.Change, file string) (string, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		m, err := w.maker(ctx, c.Row.ID)
		if err == nil {
			_, err = a.writeBundle(ctx, w, m, bundleFlags{file: file, proof: true})
		}
		if err != nil {
			return "", err
		}
		data, err = os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read proof: %w", err)
		}
	} else if err != nil {
		return "", usagef("read proof: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// pushes reports whether pushes need no person: their own configuration says so.
func (w *workplace) pushes() bool { return w.settings.Forge.V.Push == config.PushAlways }
