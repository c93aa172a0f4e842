package git

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"
)

// Elsewhere lists files of a tree whose bytes are not in the tree.
type Elsewhere struct {
	Submodules []string // paths
	LFS        []string // paths of .gitattributes files that hand files to Git LFS
}

// Elsewhere finds what a tree stores elsewhere: submodules and Git LFS files.
func (r *Repo) Elsewhere(ctx context.Context, tree string) (e Elsewhere, err error) {
	fail := func(err error) (Elsewhere, error) {
		return e, fmt.Errorf("look through tree %s: %w", tree, err)
	}
	s, err := r.begin(noTree)
	if err != nil {
		return fail(err)
	}
	defer s.end()
	if tree, err = s.treeOf(ctx, tree); err != nil {
		return fail(err)
	}
	list, err := s.run(ctx, nil, "ls-tree", "-r", "-z", tree)
	if err != nil {
		return fail(err)
	}
	for entry := range records(list) {
		about, file, _ := strings.Cut(entry, "\t")
		f := strings.Fields(about)
		switch {
		case strings.HasPrefix(entry, gitlink):
			e.Submodules = append(e.Submodules, file)
		case path.Base(file) == ".gitattributes" && len(f) == 3:
			text, err := s.run(ctx, nil, "cat-file", "blob", f[2])
			if err != nil {
				return fail(err)
			}
			for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
				if rule := strings.TrimSpace(lines.Text()); !strings.HasPrefix(rule, "#") && strings.Contains(rule, "filter=lfs") {
					e.LFS = append(e.LFS, file)
					break
				}
			}
		}
	}
	return e, nil
}
