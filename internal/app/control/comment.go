package control

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
)

// Limits of a comment.
const (
	quotedLines = 50
	quotedBytes = 500 // of each line
)

var commentPlace = regexp.MustCompile(`^(.+):(\d{1,9})(?:-(\d{1,9}))?$`)

// About returns what a person says about lines of a file, typed as FILE:LINE or FILE:LINE-LINE: the text for the agent,
// which quotes the lines, and what the step records. tree is the git tree that has the file; "" means as the thread's
// newest step left it. Errors match ErrUsage.
func (c *Controller) About(ctx context.Context, row store.Thread, typed, tree, said string) (string, *thread.Comment,
	error) {
	place := commentPlace.FindStringSubmatch(typed)
	if place == nil {
		return "", nil, usage("%q does not name lines: want FILE:LINE or FILE:LINE-LINE", typed)
	}
	if strings.TrimSpace(said) == "" {
		return "", nil, usage("say something about %s", typed)
	}
	about := &thread.Comment{File: place[1], Tree: tree}
	about.Line, _ = strconv.Atoi(place[2]) // at most nine digits
	about.EndLine, _ = strconv.Atoi(cmp.Or(place[3], place[2]))
	if about.Tree == "" {
		var err error
		if about.Tree, err = c.Tree(ctx, row.Head); err != nil {
			return "", nil, fmt.Errorf("comment on %s: %w", typed, err)
		}
		if about.Tree == "" {
			return "", nil, usage("no step of %s has recorded its files: a comment on a line needs a Git repository, and a "+
				"step that may change files", displayName(row))
		}
	}
	file, err := c.trees.File(ctx, row, about.Tree, about.File)
	if err != nil {
		return "", nil, usage("there is no file %q in git tree %s: %v", about.File, about.Tree, err)
	}
	lines := strings.Split(strings.TrimSuffix(file, "\n"), "\n")
	if about.Line < 1 || about.EndLine < about.Line || about.EndLine > len(lines) {
		return "", nil, usage("%s has %s, not line %s", about.File, text.Count(len(lines), "line"),
			strings.TrimPrefix(typed, about.File+":"))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "About %s:\n\n", typed)
	for i, l := range lines[about.Line-1 : about.EndLine] {
		if i == quotedLines {
			b.WriteString("> …\n")
			break
		}
		b.WriteString("> " + text.Clip(strings.ToValidUTF8(l, "\ufffd"), quotedBytes) + "\n")
	}
	return b.String() + "\n" + said, about, nil
}
