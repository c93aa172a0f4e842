package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/blame"
	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/sys/text"
)

// A blameView is where the lines of a file come from, with the prompts of their steps if they are wanted.
type blameView struct {
	*blame.File
	Prompts map[string]string `json:"prompts,omitempty"` // by the name of the step
}

func (a *app) blameCmd() *cobra.Command {
	var prompts bool
	cmd := &cobra.Command{
		Use:   "blame FILE[:LINE]",
		Short: "Show which step of which task wrote the lines of a file",
		Long: `Show which step wrote each line of a file of a Git repository, as it is now, or one line: the role,
the agent and its model, what the task was asked for, who approved, and which commands ran on exactly these
files. Nothing is needed in your commits: the lines are found after a squash, a rebase, an amended or picked
commit, a revert and a rename. Lines that no step wrote are shown as written by hand, or with their commit.
Where it cannot be told who wrote a line, as with one of several equal lines, those who may have are named,
with a question mark.`,
		Example: `  plait blame internal/parser.go
  plait blame internal/parser.go:120 --prompt`,
		Args: exactly(1, "a file"),
		RunE: read(a, func(ctx context.Context, w *workplace, args []string) (blameView, error) {
			f, err := w.blame(ctx, args[0])
			if err != nil {
				return blameView{}, err
			}
			v := blameView{File: f}
			if prompts {
				v.Prompts = map[string]string{}
				for _, s := range f.Steps {
					if s.Prompt.IsZero() {
						continue
					}
					if v.Prompts[s.Name], err = prompt.Read(ctx, w.control.Reader(), s.Prompt); err != nil {
						return v, err
					}
				}
			}
			return v, nil
		}, writeBlame),
	}
	cmd.Flags().BoolVar(&prompts, "prompt", false, "print the exact prompts of the steps")
	return cmd
}

// blame blames the lines of a file, or the one that is named.
func (w *workplace) blame(ctx context.Context, typed string) (*blame.File, error) {
	name, line := typed, 0
	_, err := os.Lstat(filepath.Join(w.dir, name))
	if i := strings.LastIndexByte(typed, ':'); err != nil && i > 0 {
		if n, err := strconv.Atoi(typed[i+1:]); err == nil {
			name, line = typed[:i], n
		}
	}
	file := name
	if !filepath.IsAbs(file) {
		file = filepath.Join(w.dir, file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, badUsage{fmt.Errorf("blame %s: %w", text.Safe(name), err)}
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	repo, err := git.Open(ctx, dir)
	if errors.Is(err, git.ErrNone) {
		return nil, usagef("blame %s: it is not in a Git repository", text.Safe(name))
	}
	if err != nil {
		return nil, err
	}
	path, err := filepath.Rel(repo.Root(), filepath.Join(dir, filepath.Base(file)))
	if err != nil {
		return nil, err
	}
	r := blame.Reader{View: w.view(), Repo: repo, Index: filepath.Join(w.home, blame.IndexFile)}
	f, err := r.File(ctx, filepath.ToSlash(path), data)
	if err != nil || line == 0 {
		return f, err
	}
	if line < 1 || line > len(f.Lines) {
		return nil, usagef("blame %s: line %d: the file has %s", text.Safe(name), line, text.Count(len(f.Lines), "line"))
	}
	f.Only(line)
	return f, nil
}

// writeBlame prints lines, then their steps.
func writeBlame(out page, v blameView) {
	authors, width := make([]string, len(v.Lines)), 0
	for i, l := range v.Lines {
		authors[i] = text.Safe(v.Author(l))
		width = max(width, len([]rune(authors[i])))
	}
	for i, l := range v.Lines {
		out.line("%s%s %4d  %s", authors[i], strings.Repeat(" ", width-len([]rune(authors[i]))), l.N, text.Safe(l.Text))
	}
	for _, s := range v.Steps {
		who := []string{s.Role, strings.TrimSpace(cmp.Or(s.By, s.Agent) + " " + s.Model),
			strconv.Quote(text.FirstLine(s.Title, 60))}
		if len(s.Approved) > 0 {
			who = append(who, "approved by "+strings.Join(s.Approved, ", "))
		}
		if n := len(s.Ran); n > 0 {
			last := s.Ran[n-1]
			who = append(who, fmt.Sprintf("%s: exit code %d", text.FirstLine(last.Command, 40), last.Exit))
		}
		out.line("\n%s  %s", out.bold(text.Safe(s.Name)), text.Safe(strings.Join(who, " · ")))
		out.field("prompt", v.Prompts[s.Name])
	}
	if note := v.Fallback(); note != "" {
		out.line("\n%s", note)
	}
}
