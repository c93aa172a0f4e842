package thread

import (
	"fmt"
	"strings"
)

// A Merge says what became, at a join, of the files that its paths changed in working
// trees of their own.
type Merge struct {
	From  string       `json:"from"` // git tree of the thread's files before
	To    string       `json:"to"`   // and after; the same when none are touched
	Sides []MergedSide `json:"sides"`
}

// A MergedSide is what one path left. What is not merged stays on its branch.
type MergedSide struct {
	Path      string   `json:"path"` // the path's id
	Branch    string   `json:"branch"`
	Base      string   `json:"base"` // git trees: what it began with
	Tree      string   `json:"tree"` // and what it left
	Merged    bool     `json:"merged"`
	Conflicts []string `json:"conflicts"` // files that do not merge
	Protected []string `json:"protected"` // files that only a person lets in
}

// String says in a line for each side what became of it; "" when no file was changed.
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
