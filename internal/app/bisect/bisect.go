// Package bisect finds the step of a task after which a command fails, without asking a model: it runs the command on
// the files as steps left them.
//
// It takes a task and a function that tries the files of a state, and returns the last good and the first bad state.
// If the first bad state is that of a join, it goes on in the path that broke it. Laws:
//
//   - Search is pure. Each git tree is tried once.
//   - The beginning must be good and the end bad: otherwise no step did it.
//   - Nothing that is the person's changes: each try has a worktree of its own, which is removed.
package bisect

import (
	"context"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// Why there is no step to find.
var (
	ErrBegun = errors.New("no step broke it: it fails on the files that the task began with")
	ErrEnded = errors.New("nothing is broken: it succeeds on the files that the task left")
)

// A Trial is what a command said about the files of a state.
type Trial struct {
	Verdict Verdict `json:"verdict"`
	Exit    int     `json:"exit"`
	Output  string  `json:"output"` // the end of both streams
}

// A Finder finds the step that broke something.
type Finder struct {
	Reader *view.Reader
	Try    func(ctx context.Context, row store.Thread, s State) (Trial, error)
	Tried  func(s State, t Trial) // called after each try; nil: nothing is

	tried map[string]Trial // by git tree
}

// A Found is where the files of a task went from good to bad.
type Found struct {
	Good    State   `json:"good"`
	Bad     State   `json:"bad"`
	Between []State `json:"between"` // states that were skipped: the first bad one may be any of these
	Trial   Trial   `json:"trial"`   // of the first bad state
	Tries   int     `json:"tries"`
}

// Find finds the step of a task that broke it. The error matches ErrBegun or ErrEnded if none did.
func (f *Finder) Find(ctx context.Context, row store.Thread) (Found, error) {
	f.tried = map[string]Trial{}
	states, err := f.trail(ctx, row, forkOf(row))
	if err != nil {
		return Found{}, err
	}
	if len(states) < 2 {
		return Found{}, attempt.Usage("no step of the task changed files in a Git repository")
	}
	for _, i := range []int{0, len(states) - 1} {
		t, err := f.try(ctx, row, states[i])
		switch {
		case err != nil:
			return Found{}, err
		case i == 0 && (t.Exit == notRunnable || t.Exit == notFound):
			return Found{}, attempt.Usage("the command cannot be run: exit code %d: %s", t.Exit, t.Output)
		case t.Verdict == Skip:
			return Found{}, attempt.Usage("the command skips (exit code %d) the files after %s: it must say whether they are "+
				"good", skipped, states[i].Step)
		case i == 0 && t.Verdict == Bad:
			return Found{}, fmt.Errorf("%w: exit code %d: %s", ErrBegun, t.Exit, t.Output)
		case i > 0 && t.Verdict == Good:
			return Found{}, ErrEnded
		}
	}
	return f.search(ctx, row, states)
}

// search finds where states go bad, the first of which is good and the last bad.
func (f *Finder) search(ctx context.Context, row store.Thread, states []State) (Found, error) {
	good, bad, err := Search(len(states)-1, func(i int) (Verdict, error) {
		t, err := f.try(ctx, row, states[i])
		return t.Verdict, err
	})
	if err != nil {
		return Found{}, err
	}
	found := Found{Good: states[good], Bad: states[bad], Between: append([]State{}, states[good+1:bad]...),
		Trial: f.tried[states[bad].Tree]}
	if len(found.Between) == 0 {
		for _, s := range states[bad].sides {
			if in, ok, err := f.inside(ctx, s); err != nil || ok {
				return in, err
			}
		}
	}
	found.Tries = len(f.tried)
	return found, nil
}

// inside finds where a path broke it. ok is false if it did not do so alone.
func (f *Finder) inside(ctx context.Context, s side) (found Found, ok bool, err error) {
	states, err := f.trail(ctx, s.row, forkOf(s.row))
	if err != nil || len(states) < 2 {
		return Found{}, false, err
	}
	for i, want := range []Verdict{Bad, Good} {
		if t, err := f.try(ctx, s.row, states[(len(states)-1)*(1-i)]); err != nil || t.Verdict != want {
			return Found{}, false, err
		}
	}
	found, err = f.search(ctx, s.row, states)
	return found, err == nil, err
}

func (f *Finder) try(ctx context.Context, row store.Thread, s State) (Trial, error) {
	if t, ok := f.tried[s.Tree]; ok {
		return t, nil
	}
	t, err := f.Try(ctx, row, s)
	if ctx.Err() != nil {
		return t, context.Cause(ctx)
	}
	if err != nil {
		return t, fmt.Errorf("try the files after %s: %w", s.Step, err)
	}
	if f.tried[s.Tree] = t; f.Tried != nil {
		f.Tried(s, t)
	}
	return t, nil
}
