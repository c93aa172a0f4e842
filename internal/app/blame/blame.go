// Package blame says which step of which task wrote a line of a file.
//
// Its input is a file of a Git repository, as it is now, and the record; its output is a [File]. Nothing is needed in
// the commits of a person: no trailer, note or hook. The record has the trees before and after each step. From them
// come the versions that a file had in tasks, and from which other version each was made (versions.go). A line is
// first followed to the commit that introduced it, with git's own blame; then through these versions, as git blame
// would if they were commits, with git's own diff, from that commit on to the step that wrote it (state.go). So the
// line is found after a squash, a rebase, an amended or picked commit, a revert and a rename.
//
// Laws:
//
//   - A line is attributed to a step only if that is certain (evidence.go): the file is what the step left, or most
//     of what the step wrote has arrived, or the line is in a passage that is long enough. Otherwise its steps are
//     candidates, and it is unsure.
//   - A commit that is older than a step has nothing of it.
//   - Nothing is written, neither to the record nor to the repository. The index of what steps changed is a view.
package blame

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// IndexFile is the name of the index in PLAIT_HOME.
const IndexFile = "changes.index"

// Who wrote a line.
const (
	ByStep   = "step"   // a step of a task
	ByHand   = "hand"   // nobody that the record knows: it is not committed, or its commit has lines of steps besides it
	ByCommit = "commit" // the same, in a commit without lines of steps
	ByUnsure = "unsure" // a step may have written it, or one of several
)

// A File is where the lines of a file come from.
type File struct {
	Path    string    `json:"path"` // relative to the top of the repository
	Lines   []Line    `json:"lines"`
	Steps   []*Step   `json:"steps"`   // that lines name, in order
	Commits []*Commit `json:"commits"` // the same
	Known   int       `json:"known"`   // steps that changed files of the repository
	Missing int       `json:"missing"` // steps that may have written lines, but whose files are not in the repository
}

// Fallback says which lines are only as git blame has them, "" if none is.
func (f *File) Fallback() string {
	switch {
	case f.Missing+f.Known == 0:
		return "No step of the record has changed files in this repository: all lines are as git blame has them."
	case f.Missing == 0:
		return ""
	}
	return fmt.Sprintf("The files of %s are not in this repository: lines of theirs are as git blame has them.",
		text.Count(f.Missing, "step"))
}

// Author says in a few characters who wrote a line.
func (f *File) Author(l Line) string {
	switch l.By {
	case ByStep:
		return l.Steps[0]
	case ByUnsure:
		return strings.Join(l.Steps, " or ") + "?"
	case ByHand:
		return "by hand"
	}
	i := slices.IndexFunc(f.Commits, func(c *Commit) bool { return c.ID == l.Commit })
	if i < 0 {
		return ""
	}
	c := f.Commits[i]
	return fmt.Sprintf("%.8s %s %s", c.ID, text.FirstLine(c.Author, 16), time.UnixMilli(c.At).Format(time.DateOnly))
}

// A Line is where a line comes from.
type Line struct {
	N      int      `json:"n"` // from 1
	Text   string   `json:"text"`
	By     string   `json:"by"`     // one of By…
	Steps  []string `json:"steps"`  // names: one for ByStep, the candidates for ByUnsure
	Commit string   `json:"commit"` // that introduced it, "" if it is not committed
}

// A Commit is one that introduced lines.
type Commit struct {
	ID      string `json:"id"`
	Author  string `json:"author"`
	At      int64  `json:"at"` // when it was made, Unix ms
	Subject string `json:"subject"`
}

// A Reader blames lines on steps.
type Reader struct {
	View *view.Reader
	Repo *git.Repo
	// Index is a file with the blobs that steps changed, of all repositories. It can be deleted; "": none.
	Index string
}

// File says where the lines of a file come from, if its contents are what is given; path is relative to the top of
// the repository, with slashes.
func (r *Reader) File(ctx context.Context, path string, contents []byte) (*File, error) {
	f, err := r.file(ctx, path, contents)
	if err != nil {
		return nil, fmt.Errorf("blame %s: %w", path, err)
	}
	return f, nil
}

func (r *Reader) file(ctx context.Context, path string, contents []byte) (*File, error) {
	made, err := r.Repo.Annotator()
	if err != nil {
		return nil, err
	}
	defer made.Close()
	lines, err := introduced(ctx, made, path, contents)
	if err != nil {
		return nil, err
	}
	all, err := r.steps(ctx)
	if err != nil {
		return nil, err
	}
	steps, missing, err := r.withChanges(ctx, made, all)
	if err != nil {
		return nil, err
	}
	h := newHistory(made, link(steps))
	f := &File{Path: path, Lines: []Line{}, Steps: []*Step{}, Commits: []*Commit{}, Known: len(steps),
		Missing: missing}
	origins, err := f.readCommits(ctx, made, lines)
	if err != nil {
		return nil, err
	}
	verdicts := map[state][]verdict{}
	found := map[*step]*Step{}
	for i, l := range lines {
		of := origins[origin{l.Commit, l.Path}]
		if of.state.blob == "" { // what is not committed
			if of.state.blob, err = made.Blob(contentOf(lines, contents)); err != nil {
				return nil, err
			}
			origins[origin{l.Commit, l.Path}] = of
		}
		v, ok := verdicts[of.state]
		if !ok {
			if v, err = h.verdicts(ctx, of.state, of.before); err != nil {
				return nil, err
			}
			verdicts[of.state] = v
		}
		line := Line{N: i + 1, Text: strings.ToValidUTF8(l.Text, "\uFFFD"), By: ByCommit, Steps: []string{}, Commit: l.Commit}
		var by verdict
		if l.N <= len(v) {
			by = v[l.N-1]
		}
		for _, s := range by.steps {
			if found[s] == nil {
				if found[s], err = r.describe(ctx, s, all); err != nil {
					return nil, err
				}
				f.Steps = append(f.Steps, found[s])
			}
			line.Steps = append(line.Steps, found[s].Name)
		}
		switch {
		case len(by.steps) == 1 && by.sure:
			line.By = ByStep
		case len(by.steps) > 0:
			line.By = ByUnsure
		case l.Commit == "" || slices.ContainsFunc(v, func(v verdict) bool { return len(v.steps) == 1 && v.sure }):
			line.By = ByHand
		}
		f.Lines = append(f.Lines, line)
	}
	f.doubt()
	return f, nil
}

// Only leaves one line, and what it names.
func (f *File) Only(n int) {
	line := f.Lines[n-1]
	f.Lines = []Line{line}
	f.Steps = slices.DeleteFunc(f.Steps, func(s *Step) bool { return !slices.Contains(line.Steps, s.Name) })
	f.Commits = slices.DeleteFunc(f.Commits, func(c *Commit) bool { return c.ID != line.Commit })
}

// An origin is a file of a commit, "" for what is not committed.
type origin struct{ commit, path string }

// A source is the state of a file in a commit, and the blobs that it had in the commits before.
type source struct {
	state  state
	before []string
}

// introduced returns the commit that introduced each line. A file that HEAD does not have is not committed.
func introduced(ctx context.Context, made *git.Annotator, path string, contents []byte) ([]git.Annotation, error) {
	has, err := made.Objects(ctx, []string{"HEAD:" + path})
	if err != nil {
		return nil, err
	}
	if has[0] != "" {
		return made.Committed(ctx, path, contents)
	}
	var lines []git.Annotation
	for line := range strings.Lines(string(contents)) {
		lines = append(lines, git.Annotation{Path: path, N: len(lines) + 1, Text: strings.TrimSuffix(line, "\n")})
	}
	return lines, nil
}

// contentOf returns the contents of a file as Git has them: with the line ends that it would commit.
func contentOf(lines []git.Annotation, contents []byte) []byte {
	var b strings.Builder
	for i, l := range lines {
		b.WriteString(l.Text)
		if i < len(lines)-1 || len(contents) > 0 && contents[len(contents)-1] == '\n' {
			b.WriteByte('\n')
		}
	}
	return []byte(b.String())
}

// readCommits adds the commits of the lines to f, and returns where each of their files is.
func (f *File) readCommits(ctx context.Context, made *git.Annotator, lines []git.Annotation) (
	map[origin]source, error) {
	var ids []string
	from := map[origin]string{} // what the file was called before
	for _, l := range lines {
		from[origin{l.Commit, l.Path}] = l.From
		if l.Commit != "" && !slices.Contains(ids, l.Commit) {
			ids = append(ids, l.Commit)
		}
	}
	commits, err := made.Commits(ctx, ids)
	if err != nil {
		return nil, err
	}
	byID := map[string]git.Commit{"": {Parents: []string{"HEAD"}}}
	for _, c := range commits {
		byID[c.ID] = c
		f.Commits = append(f.Commits, &Commit{c.ID, c.Author, c.Committed.UnixMilli(), c.Subject})
	}
	var names []string // the file itself, and in the commits before under either name
	var order []origin
	for o, was := range from {
		order, names = append(order, o), append(names, o.commit+":"+o.path)
		for _, parent := range byID[o.commit].Parents {
			names = append(names, parent+":"+o.path, parent+":"+was)
		}
	}
	blobs, err := made.Objects(ctx, names)
	if err != nil {
		return nil, err
	}
	out := map[origin]source{}
	for _, o := range order {
		c := byID[o.commit]
		s := source{state: state{blob: blobs[0], path: o.path, was: from[o], until: forever}}
		if blobs = blobs[1:]; o.commit != "" {
			s.state.until = c.Committed.UnixMilli() + 1000 // Git keeps seconds
		} else {
			s.state.blob = "" // ":path" would name the index
		}
		for range c.Parents {
			if blob := blobs[0]; blob != "" {
				s.before = append(s.before, blob)
			} else if from[o] != "" && blobs[1] != "" {
				s.before = append(s.before, blobs[1])
			}
			blobs = blobs[2:]
		}
		out[o] = s
	}
	return out, nil
}
