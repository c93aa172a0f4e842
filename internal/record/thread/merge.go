package thread

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// A Merge describes how the files that paths changed in their own worktrees were merged at a join.
type Merge struct {
	From  string       `json:"from"` // git tree of the thread's files before
	To    string       `json:"to"`   // and after; equal to From if nothing was written
	Sides []MergedSide `json:"sides"`
	// Kept are worktrees of completed paths that stay, since they have what no merge can take.
	Kept []KeptTree `json:"kept,omitempty"`
	// Caches is how many caches go with the worktrees that do not stay.
	Caches int `json:"caches,omitempty"`
}

// A KeptTree is a worktree that stays.
type KeptTree struct {
	Path string `json:"path"`           // the path's id
	Left []Left `json:"left"`           // the first of what it has
	More int    `json:"more,omitempty"` // how much more it has
}

// A Left is a file or a directory in a worktree that no merge can take.
type Left struct {
	Path string `json:"path"` // in the worktree; a directory's ends in a slash
	Why  Why    `json:"why"`
}

// A Why says why no merge can take something.
type Why string

// Reasons why no merge can take something.
const (
	WhySubmodule  Why = "submodule"  // files in a submodule that was not initialized
	WhyCommits    Why = "commits"    // changes of an initialized submodule
	WhyRepository Why = "repository" // a repository that an agent made
	WhyIgnored    Why = "ignored"    // git ignores it
	WhyUnreadable Why = "unreadable" // git cannot read the worktree
)

var inWords = map[Why]string{WhySubmodule: "in a submodule", WhyCommits: "a changed submodule",
	WhyRepository: "a repository", WhyIgnored: "ignored by Git", WhyUnreadable: "cannot be read"}

// Holds describes what the worktree has: "dist/ (ignored by Git), lib/ (in a submodule) and 3 more".
func (k KeptTree) Holds() string {
	parts := make([]string, len(k.Left))
	for i, l := range k.Left {
		name := l.Path
		if strings.ContainsFunc(name, unicode.IsControl) {
			name = strconv.Quote(name)
		}
		parts[i] = name + " (" + cmp.Or(inWords[l.Why], string(l.Why)) + ")"
	}
	text := strings.Join(parts, ", ")
	if k.More > 0 {
		text += fmt.Sprintf(" and %d more", k.More)
	}
	return text
}

// A MergedSide describes the changes of one path. Unmerged changes stay on its branch.
type MergedSide struct {
	Path      string   `json:"path"` // the path's id
	Branch    string   `json:"branch"`
	Base      string   `json:"base"` // git trees: where it started
	Tree      string   `json:"tree"` // and where it ended
	Merged    bool     `json:"merged"`
	Conflicts []string `json:"conflicts"` // files with merge conflicts
	Protected []string `json:"protected"` // files that only a person may approve
}

// String returns a line for each path that changed files or whose worktree stays, and one for caches; "" for none.
func (m *Merge) String() string {
	if m == nil {
		return ""
	}
	var b strings.Builder
	for _, s := range m.Sides {
		switch {
		case s.Merged:
			fmt.Fprintf(&b, "- the files of %s are merged\n", s.Path)
		case len(s.Conflicts) > 0:
			fmt.Fprintf(&b, "- the files of %s are on branch %s, not merged: conflicts in %s\n", s.Path, s.Branch,
				strings.Join(s.Conflicts, ", "))
		default:
			fmt.Fprintf(&b, "- the files of %s are on branch %s, not merged\n", s.Path, s.Branch)
		}
	}
	for _, k := range m.Kept {
		fmt.Fprintf(&b, "- the worktree of %s stays, since it has what cannot be merged: %s\n", k.Path, k.Holds())
	}
	switch m.Caches {
	case 0:
	case 1:
		b.WriteString("- 1 cache was removed with its worktree\n")
	default:
		fmt.Fprintf(&b, "- %d caches were removed with their worktrees\n", m.Caches)
	}
	return strings.TrimRight(b.String(), "\n")
}
