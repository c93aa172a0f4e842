package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/app/blame"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/app/forge"
	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// A watch is a request that is watched.
type watch struct {
	app    *app
	w      *workplace
	row    store.Thread // the task that was named
	repo   *git.Repo
	on     forge.Forge
	pub    *forge.Publisher
	branch string
	opts   control.Options
	agree  agreement
	quiet  bool
	shown  map[string]bool // comments that the person has seen
	told   string
}

// newWatch finds the request of a task.
func (a *app) newWatch(ctx context.Context, w *workplace, row store.Thread) (*watch, error) {
	p := &watch{app: a, w: w, row: row, shown: map[string]bool{}}
	var err error
	if p.pub, err = w.publisher(ctx, row); err != nil {
		return nil, err
	}
	p.repo = p.pub.Repo
	at, err := w.remote(p.repo)
	if err == nil {
		p.on, err = a.reach(w, at)
	}
	if err != nil {
		return nil, err
	}
	c, err := p.pub.Change(ctx, row)
	if errors.Is(err, forge.ErrNoChange) {
		return nil, badUsage{err}
	}
	if err == nil && c.Tip() == "" {
		err = view.Advise(usagef("%s has no pull request", p.name(ctx, row.ID)), "open one with `plait task pr %s`",
			p.name(ctx, row.ID))
	}
	p.branch = c.Branch
	return p, err
}

// name returns what people type for a task.
func (p *watch) name(ctx context.Context, task string) string {
	row, err := p.w.store.Thread(ctx, task)
	if err != nil {
		return task
	}
	return p.w.view().Names().Of(ctx, row)
}

// look reads what the forge and the record hold.
func (p *watch) look(ctx context.Context) (s forge.Situation, err error) {
	s.Named, s.Most = p.w.settings.Forge.V.Steer, p.w.settings.Forge.V.Rounds
	if s.Request, err = p.on.Request(ctx, p.branch); err != nil {
		return s, err
	}
	if s.Request.State != forge.Open {
		return s, nil
	}
	if s.Comments, err = p.on.Comments(ctx, s.Request.Number); err != nil {
		return s, err
	}
	if s.Checks, err = p.on.Checks(ctx, s.Request.Head); err != nil {
		return s, err
	}
	history, err := p.repo.History(ctx, p.branch)
	if err != nil {
		return s, err
	}
	if !slices.ContainsFunc(history, func(r git.Revision) bool { return r.ID == s.Request.Head }) {
		p.note("%s has commits of others", p.branch)
		if err := p.repo.Follow(ctx, p.w.settings.Forge.V.Remote, p.branch); err != nil {
			return s, fmt.Errorf("%w: %w", err, store.ErrConflict)
		}
		if history, err = p.repo.History(ctx, p.branch); err != nil {
			return s, err
		}
	}
	s.Tip = history[0].ID
	s.Rounds, err = p.rounds(ctx)
	return s, err
}

// rounds returns the tasks whose changes go onto the branch, oldest first.
func (p *watch) rounds(ctx context.Context) (list []forge.Round, err error) {
	rows, err := p.w.store.Threads(ctx, store.ThreadFilter{Kind: store.KindRoot})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		opts, err := record.OptionsOf(row)
		if err != nil {
			return nil, err
		}
		if f := opts.Forge; f == nil || f.Branch != p.branch || row.Workspace != p.row.Workspace {
			continue
		}
		r := forge.Round{Task: row.ID, For: opts.Forge.For}
		if r.State, err = p.state(ctx, row); err != nil {
			return nil, err
		}
		if r.State == forge.Done {
			c, err := p.pub.Change(ctx, row)
			r.Commit, r.Settled = c.Has, errors.Is(err, forge.ErrNoChange)
			if err == nil {
				r.Settled, err = p.pub.Settled(ctx, c)
			}
			if err != nil && !r.Settled {
				return nil, err
			}
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b forge.Round) int { return cmp.Compare(a.Task, b.Task) })
	return list, nil
}

// state returns what has become of a round.
func (p *watch) state(ctx context.Context, row store.Thread) (forge.State, error) {
	switch row.Status {
	case store.Completed:
		return forge.Done, nil
	case store.Failed, store.Cancelled:
		return forge.Over, nil
	case store.Blocked:
		return forge.Asks, nil
	}
	_, held, err := p.w.store.Holder(ctx, row.Root)
	if held {
		return forge.Working, err
	}
	return forge.Stopped, err
}

// settle commits the change of a round.
func (p *watch) settle(ctx context.Context, r forge.Round) error {
	row, err := p.w.store.Thread(ctx, r.Task)
	if err != nil {
		return err
	}
	done, _, err := p.app.commitTask(ctx, p.w, p.pub, row, p.agree)
	if err == nil && done.New {
		p.note("committed %.12s to %s", done.Commit, p.branch)
	}
	return err
}

// hand begins a round: it gives the items that belong to one conversation to the agent that wrote the lines.
func (p *watch) hand(ctx context.Context, s forge.Situation, items []forge.Item) error {
	writer := store.Thread{}
	var its []forge.Item
	for _, it := range items {
		of, err := p.writer(ctx, it)
		if err != nil {
			return err
		}
		if writer.ID == "" {
			writer = of
		}
		if of.ID == writer.ID {
			its = append(its, it)
		}
	}
	history, err := p.repo.History(ctx, p.branch)
	if err != nil {
		return err
	}
	opts := p.opts
	opts.Forge = &record.Forge{Branch: p.branch}
	if old, err := record.OptionsOf(p.row); err == nil && old.Forge != nil {
		opts.Forge.Issue = old.Forge.Issue
	}
	for _, it := range its {
		opts.Forge.For = append(opts.Forge.For, it.ID)
	}
	tree, err := p.repo.Plain(ctx, history[0].ID)
	if err != nil {
		return err
	}
	next, err := p.w.control.Fork(ctx, control.Fork{Thread: writer.ID, Prompt: forge.Feedback(its, s.Request.URL),
		About: p.about(ctx, writer, its), Options: opts, Tree: tree})
	if err != nil {
		return err
	}
	p.note("round %s: %d of %d for %s", p.name(ctx, next.ID), len(its), len(items), p.name(ctx, writer.ID))
	return p.drive(ctx, next.ID)
}

// about returns the first lines that items are about.
func (p *watch) about(ctx context.Context, row store.Thread, items []forge.Item) *thread.Comment {
	for _, it := range items {
		if it.File == "" || it.Line == 0 || it.Commit == "" {
			continue
		}
		tree, err := p.repo.Plain(ctx, it.Commit)
		if err != nil {
			continue // a commit that is not here
		}
		_, about, err := p.w.control.About(ctx, row, fmt.Sprintf("%s:%d", it.File, it.Line), tree, it.Text)
		if err == nil {
			return about
		}
	}
	return nil
}

// writer returns the conversation that an item belongs to: that of the agent that wrote the line, or else the newest
// one of the request.
func (p *watch) writer(ctx context.Context, it forge.Item) (store.Thread, error) {
	row := p.row
	if it.File != "" && it.Commit != "" {
		data, err := p.repo.File(ctx, it.Commit, it.File)
		if err == nil {
			r := blame.Reader{View: p.w.view(), Repo: p.repo}
			if f, err := r.File(ctx, it.File, data); err == nil && it.Line <= len(f.Lines) {
				if name := wrote(f, it.Line); name != "" {
					of, _, err := p.w.view().Find(ctx, name)
					if err != nil {
						return row, err
					}
					row = of
				}
			}
		}
	}
	rounds, err := p.rounds(ctx)
	if err != nil {
		return row, err
	}
	for _, r := range rounds { // a later round may have continued the conversation
		next, err := p.w.store.Thread(ctx, r.Task)
		if err != nil {
			return row, err
		}
		if r.State == forge.Done && next.ForkedFrom != nil && next.ForkedFrom.Thread == row.ID {
			row = next
		}
	}
	return row, nil
}

// wrote names the step that wrote a line, or the first known one if it is about no line; "" if that is not known.
func wrote(f *blame.File, line int) string {
	for _, l := range f.Lines {
		if (line == 0 || l.N == line) && l.By == blame.ByStep {
			return l.Steps[0]
		}
	}
	return ""
}

// respond answers a comment.
func (p *watch) respond(ctx context.Context, s forge.Situation, m forge.Move) error {
	row, err := p.w.store.Thread(ctx, m.Round.Task)
	if err != nil {
		return err
	}
	result, err := p.w.view().Result(ctx, row)
	if err != nil {
		return err
	}
	return p.on.Reply(ctx, s.Request.Number, m.Comment,
		forge.Answer(m.Comment.ID, row.ID, p.name(ctx, row.ID), result.Text, m.Round.Commit))
}
