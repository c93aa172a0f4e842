package thread

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/plait-run/plait/internal/record/dag"
)

// SourceComment is the source of an __input__ step that is about lines of a file.
const SourceComment = "comment"

// A Comment says which lines a person's input is about.
type Comment struct {
	File    string `json:"file"` // relative to the root of the tree, with slashes
	Line    int    `json:"line"` // the first line, from 1
	EndLine int    `json:"endLine"`
	Tree    string `json:"tree"` // the git tree that has the file
}

// CommentMeta returns the meta of an __input__ step that is a comment. Like every meta it is canonical.
func CommentMeta(c Comment) json.RawMessage {
	b := fmt.Appendf(nil, `{"endLine":%d,"file":`, c.EndLine)
	b = dag.AppendString(b, c.File)
	b = fmt.Appendf(b, `,"gate":null,"line":%d,"source":"comment","tree":`, c.Line)
	return append(dag.AppendString(b, c.Tree), '}')
}

var gitTree = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// CommentOf returns what a step is a comment on, and reports whether it is one. The error says what is wrong with it.
func CommentOf(s *State) (c Comment, is bool, err error) {
	var meta struct {
		Source string `json:"source"`
		Comment
	}
	if s.Role != RoleInput || json.Unmarshal(s.Meta, &meta) != nil || meta.Source != SourceComment {
		return c, false, nil
	}
	if c = meta.Comment; c.File == "" || c.Line < 1 || c.EndLine < c.Line || !gitTree.MatchString(c.Tree) {
		err = errors.New("it is a comment on no lines of a file: {file, line, endLine, tree}")
	}
	return c, true, err
}
