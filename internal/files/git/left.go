package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A Why says why a snapshot cannot have something.
type Why string

// Reasons why a snapshot cannot have something.
const (
	InSubmodule Why = "submodule"  // files in the directory of a submodule that is not initialized
	OfSubmodule Why = "commits"    // commits or changed files of an initialized submodule, or one that cannot be read
	Repository  Why = "repository" // a repository that is no submodule
	Ignored     Why = "ignored"    // files that git ignores
)

// A Left is something in a work tree that a snapshot cannot have.
type Left struct {
	Path string // a directory's ends in a slash
	Why  Why
}

// Caches says which ignored files may be lost with a worktree, besides directories that a CACHEDIR.TAG
// marks.
type Caches struct {
	Names []string // patterns of path.Match, for names or paths at any depth
	Made  []string // paths that were there before anyone worked in the worktree, as Leftovers returns them
}

// Leftovers is what a work tree has beyond a snapshot of it.
type Leftovers struct {
	Left   []Left
	Caches []string // ignored files and directories that may be lost
}

// Leftovers returns what a snapshot of the work tree would miss, apart from empty directories and what is no file.
func (r *Repo) Leftovers(ctx context.Context, c Caches) (Leftovers, error) {
	l, err := r.leftovers(ctx, c)
	if err != nil {
		return Leftovers{}, fmt.Errorf("look for what no snapshot of %s has: %w", r.root, err)
	}
	return l, nil
}

func (r *Repo) leftovers(ctx context.Context, c Caches) (l Leftovers, err error) {
	s, err := r.begin(r.root)
	if err != nil {
		return l, err
	}
	defer s.end()
	if _, err = s.entries(ctx, s.list); err == nil {
		err = s.leftovers(ctx, "", c, &l)
	}
	return l, err
}

// leftovers adds what a snapshot with the entries of the session's index would miss. prefix is the path of the
// session's work tree.
func (s *session) leftovers(ctx context.Context, prefix string, c Caches, l *Leftovers) error {
	links, err := s.submodules(ctx)
	if err != nil {
		return err
	}
	for _, sub := range slices.Sorted(maps.Keys(links)) {
		if err := s.inSubmodule(ctx, sub, links[sub], prefix, c, l); err != nil {
			return err
		}
	}
	others, err := s.differing(ctx, "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for _, name := range others {
		if strings.HasSuffix(name, "/") {
			l.Left = append(l.Left, Left{prefix + name, Repository})
		}
	}
	ignored, err := s.ignored(ctx)
	if err != nil {
		return err
	}
	for _, name := range ignored {
		if isTagged(filepath.Join(s.cwd, name)) || c.has(prefix+name) {
			l.Caches = append(l.Caches, prefix+name)
		} else {
			l.Left = append(l.Left, Left{prefix + name, Ignored})
		}
	}
	return nil
}

// ignored returns the files that git ignores, and Plait's own directory. A directory that is ignored as a whole is
// one entry, unless it holds no file.
func (s *session) ignored(ctx context.Context) ([]string, error) {
	out, err := s.look(ctx, "--others", "--ignored", "--exclude-standard", "--directory")
	if err != nil {
		return nil, err
	}
	all := slices.Sorted(records(out))
	var found []string
	for i, name := range all {
		// git also lists directories that only hold what is listed.
		within := i+1 < len(all) && strings.HasSuffix(name, "/") && strings.HasPrefix(all[i+1], name)
		if !within && holdsFile(filepath.Join(s.cwd, name)) {
			found = append(found, name)
		}
	}
	return found, nil
}

// Takes reports whether a snapshot takes a file of the work tree: one that git does not ignore, and that is not
// Plait's own.
func (r *Repo) Takes(ctx context.Context, file string) (bool, error) {
	rel, err := filepath.Rel(r.root, file)
	if err != nil || !filepath.IsLocal(rel) || isPlaits(filepath.ToSlash(rel)) {
		return false, err
	}
	s, err := r.begin(r.root)
	if err != nil {
		return false, err
	}
	defer s.end()
	if err := copyIndex(filepath.Join(r.gitdir, "index"), s.index()); err != nil {
		return false, err
	}
	out, err := s.look(ctx, "--others", "--ignored", "--exclude-standard", "--", ":(literal)"+filepath.ToSlash(rel))
	return len(out) == 0, err
}

// Exempt returns the tracked files of the work tree that an ignore file names: git does not ignore them.
func (r *Repo) Exempt(ctx context.Context) ([]string, error) {
	s, err := r.begin(r.root)
	if err != nil {
		return nil, err
	}
	defer s.end()
	if err := copyIndex(filepath.Join(r.gitdir, "index"), s.index()); err != nil {
		return nil, err
	}
	out, err := s.run(ctx, nil, "ls-files", "-z", "--cached", "--ignored", "--exclude-standard")
	return slices.Collect(records(out)), err
}

// inSubmodule adds what is left in the directory of a submodule at path, of which the index has the commit want.
func (s *session) inSubmodule(ctx context.Context, at, want, prefix string, c Caches, l *Leftovers) error {
	v := survey{root: s.cwd, real: map[string]bool{}}
	dir := filepath.Join(s.cwd, at)
	info, err := os.Lstat(dir)
	if err != nil || !v.reachedDirectly(filepath.Dir(at)) {
		return nil // it was removed
	}
	if !info.IsDir() {
		l.Left = append(l.Left, Left{prefix + at, InSubmodule})
		return nil
	}
	p, err := placeAt(dir)
	if errors.Is(err, ErrNone) {
		if holdsFile(dir) {
			l.Left = append(l.Left, Left{prefix + at + "/", InSubmodule})
		}
		return nil
	}
	var more Leftovers
	same := false
	if err == nil {
		same, err = s.unchanged(ctx, p, at, want, prefix, c, &more)
	}
	if ctx.Err() != nil {
		return err
	}
	if err != nil || !same {
		l.Left = append(l.Left, Left{prefix + at + "/", OfSubmodule})
		return nil
	}
	l.Left = append(l.Left, more.Left...)
	l.Caches = append(l.Caches, more.Caches...)
	return nil
}

// unchanged reports whether the repository of a submodule has nothing but what its remotes have, with want checked
// out, or the commit that the main work tree's HEAD has for it. It adds what is left there nevertheless.
//
// An agent may have made that repository. It is opened like any other, and nothing is written there.
func (s *session) unchanged(ctx context.Context, p place, at, want, prefix string, c Caches,
	l *Leftovers) (bool, error) {
	sub, err := open(ctx, p)
	if err != nil {
		return false, err
	}
	in, err := sub.begin(p.root)
	if err != nil {
		return false, err
	}
	defer in.end()
	head, err := in.head(ctx)
	if err != nil || head != want {
		return false, err
	}
	known, err := s.mainLink(ctx, at)
	if err != nil {
		return false, err
	}
	args := []string{"rev-list", "--max-count=1", "HEAD", "--all", "--not", "--remotes"}
	if known == head {
		args = append(args, known)
	}
	if own, err := in.line(ctx, args...); err != nil || own != "" {
		return false, err
	}
	if err := in.readTree(ctx, head); err != nil {
		return false, err
	}
	changed, err := in.differing(ctx, "--modified", "--others", "--exclude-standard")
	if err != nil || len(changed) > 0 {
		return false, err
	}
	return true, in.leftovers(ctx, prefix+at+"/", c, l)
}

// mainLink returns the commit that the HEAD of the repository's main work tree has for a submodule, or "".
func (s *session) mainLink(ctx context.Context, at string) (string, error) {
	text, err := readSmall(filepath.Join(s.repo.common, "HEAD"))
	if err != nil {
		return "", err
	}
	head := strings.TrimPrefix(strings.TrimSpace(text), "ref: ")
	return s.resolveRev(ctx, head+":"+at)
}

// has reports whether an ignored entry may be lost.
func (c Caches) has(entry string) bool {
	made := func(m string) bool {
		return entry == m || strings.HasSuffix(m, "/") && strings.HasPrefix(entry, m)
	}
	return slices.ContainsFunc(c.Made, made) ||
		slices.ContainsFunc(c.Names, func(pattern string) bool { return isNamed(entry, pattern) })
}

// isNamed reports whether a pattern, such as "node_modules", "*.pyc" or "web/cache", matches a path, part of it, or a
// directory that it is in.
func isNamed(name, pattern string) bool {
	parts := strings.Split(strings.TrimSuffix(name, "/"), "/")
	n := strings.Count(pattern, "/") + 1
	for i := 0; i+n <= len(parts); i++ {
		if ok, _ := path.Match(pattern, path.Join(parts[i:i+n]...)); ok {
			return true
		}
	}
	return false
}

// cacheTag begins each valid CACHEDIR.TAG: see https://bford.info/cachedir/.
const cacheTag = "Signature: 8a477f597d28d172789f06886806bc55"

// isTagged reports whether a directory says that it is a cache.
func isTagged(dir string) bool {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return false
	}
	f, _, err := openRegular(filepath.Join(dir, "CACHEDIR.TAG"))
	if err != nil {
		return false
	}
	defer f.Close()
	begin := make([]byte, len(cacheTag))
	_, err = io.ReadFull(f, begin)
	return err == nil && bytes.Equal(begin, []byte(cacheTag))
}

// holdsFile reports whether there is a file or a link at or below a path, or may be: it cannot be read.
func holdsFile(name string) bool {
	errFound := errors.New("found")
	err := filepath.WalkDir(name, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return ignoreNotExist(err)
		}
		if d.Type().IsRegular() || d.Type()&fs.ModeSymlink != 0 {
			return errFound
		}
		return nil
	})
	return err != nil
}
