package thread

import (
	"fmt"
	"strings"
)

// A Merge describes how the files that paths changed in their own worktrees were merged at a join.
type Merge struct {
	From  string       `json:"from"` // git tree of the thread's files before
	To    string       `json:"to"`   // and after; equal to From if nothing was written
	Sides []MergedSide `json:"sides"`
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

// String returns a line for each path, "" if no files were changed.
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
	return strings.TrimRight(b.String(), "\n")
}
