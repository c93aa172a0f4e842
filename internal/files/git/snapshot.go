package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	// plaitDir is Plait's own directory, which no tree contains.
	plaitDir = ".plait"
	// gitlink is the mode of a submodule's entry.
	gitlink = "160000"
)

// Snapshot returns the tree of the work tree as it is now. With a ref, which
// must be below refs/plait/, a commit of the tree is kept under it. Its parent is
// HEAD, its message the ref, its author and date are fixed, so the same tree on the
// same HEAD is the same commit. Without a ref git may collect the tree after two weeks.
func (r *Repo) Snapshot(ctx context.Context, ref string) (tree string, err error) {
	tree, err = r.snapshot(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("snapshot %s: %w", r.root, err)
	}
	return tree, nil
}

func (r *Repo) snapshot(ctx context.Context, ref string) (string, error) {
	if ref != "" {
		if err := checkRef(ref); err != nil {
			return "", err
		}
	}
	s, err := r.begin(r.root)
	if err != nil {
		return "", err
	}
	defer s.end()
	var listed []byte
	if r.Made() {
		listed, err = s.entries(ctx, s.listFiles)
	} else if err = copyIndex(filepath.Join(r.gitdir, "index"), s.index()); err == nil {
		listed, err = s.listFiles(ctx)
	}
	if err != nil {
		return "", err
	}
	tree, _, err := s.stageListed(ctx, listed)
	if err != nil || ref == "" {
		return tree, err
	}
	return tree, s.commitTree(ctx, tree, ref)
}

// entries gives the session a copy of the index of a worktree that Checkout made, and returns what list does. If git
// cannot read that index, because an agent or a power cut damaged it, the session gets the index of HEAD.
func (s *session) entries(ctx context.Context, list func(context.Context) ([]byte, error)) ([]byte, error) {
	if err := copyIndex(filepath.Join(s.repo.gitdir, "index"), s.index()); err == nil {
		listed, err := list(ctx)
		var f *failure
		if !errors.As(err, &f) {
			return listed, err
		}
	}
	if err := os.RemoveAll(s.index()); err != nil {
		return nil, err
	}
	head, err := s.head(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.readTree(ctx, head); err != nil {
		return nil, err
	}
	if err := s.leaveOutMissing(ctx); err != nil {
		return nil, err
	}
	return list(ctx)
}

// list lists the session's index: "H 100644 <hash> 0\t<path>" for each entry, where H tells how git treats it.
func (s *session) list(ctx context.Context) ([]byte, error) {
	return s.run(ctx, nil, "ls-files", "-z", "--stage", "-v")
}

// listFiles lists the session's index as list does, after "? path" for each file that is not in it. An entry whose file
// differs is followed by the same with a C.
func (s *session) listFiles(ctx context.Context) ([]byte, error) {
	return s.look(ctx, "--stage", "-v", "--modified", "--others", "--exclude-standard")
}

// markSuspect gives the session an index with the entries of the worktree's index but
// without its cached file metadata, so that git reads every file again.
func (s *session) markSuspect(ctx context.Context) error {
	listed, err := s.entries(ctx, s.list)
	if err != nil {
		return err
	}
	if err := ignoreNotExist(os.Remove(s.index())); err != nil {
		return err
	}
	var in bytes.Buffer
	for rec := range records(listed) {
		_, entry, _ := strings.Cut(rec, " ")
		in.WriteString(entry + "\x00")
	}
	if _, err = s.run(ctx, &in, "update-index", "-z", "--index-info"); err != nil {
		return err
	}
	return s.leaveOutMissing(ctx)
}

// commitTree commits the tree under the ref, with HEAD as its parent unless there is no commit yet.
func (s *session) commitTree(ctx context.Context, tree, ref string) error {
	// Nearly always there is one, and git finds it by itself.
	if commit, err := s.line(ctx, "commit-tree", tree, "-m", ref, "-p", "HEAD"); err == nil {
		return s.setRef(ctx, ref, commit)
	}
	head, err := s.head(ctx)
	if err != nil {
		return err
	}
	return s.commitTreeOn(ctx, tree, ref, head)
}

// commitTreeOn commits the tree under the ref, with head as its parent unless it is "".
func (s *session) commitTreeOn(ctx context.Context, tree, ref, head string) error {
	args := []string{"commit-tree", tree, "-m", ref}
	if head != "" {
		args = append(args, "-p", head)
	}
	commit, err := s.line(ctx, args...)
	if err != nil {
		return err
	}
	return s.setRef(ctx, ref, commit)
}

// stageAll makes the session's index match the files of the work tree. It returns the tree
// of that index and the survey of the files.
func (s *session) stageAll(ctx context.Context) (tree string, state *survey, err error) {
	listed, err := s.listFiles(ctx)
	if err != nil {
		return "", nil, err
	}
	return s.stageListed(ctx, listed)
}

// stageListed is stageAll for files that were listed already.
func (s *session) stageListed(ctx context.Context, listed []byte) (tree string, state *survey, err error) {
	state = &survey{root: s.cwd, real: map[string]bool{}, add: map[string]bool{}, drop: map[string]bool{},
		links: map[string]bool{}}
	var changed []string
	for entry := range records(listed) {
		_, path, _ := strings.Cut(entry, "\t")
		switch {
		case strings.HasPrefix(entry, "? "):
			changed = append(changed, entry[2:])
		case strings.HasPrefix(entry, "C ") && path != "":
			changed = append(changed, path)
		default:
			if err := state.addTracked(entry); err != nil {
				return "", nil, err
			}
		}
	}
	for _, path := range changed { // now all submodules are known
		if err := state.addChanged(path); err != nil {
			return "", nil, err
		}
	}
	if err := s.apply(ctx, state); err != nil {
		return "", nil, err
	}
	write := []string{"write-tree"}
	if s.repo.isPartial() {
		write = append(write, "--missing-ok")
	}
	tree, err = s.line(ctx, write...)
	return tree, state, err
}

// look lists files of the work tree. Plait's own count as ignored.
func (s *session) look(ctx context.Context, kinds ...string) ([]byte, error) {
	args := append([]string{"ls-files", "-z", "-x", "/" + plaitDir + "/"}, kinds...)
	out, complaint, err := s.runWithin(ctx, maxOutput, nil, args...)
	// git skips what it cannot read; a snapshot must not.
	if err == nil && strings.Contains(complaint, "could not open directory") {
		err = fmt.Errorf("git ls-files: %s", complaint)
	}
	return out, err
}

// apply writes what the survey found into the session's index.
func (s *session) apply(ctx context.Context, state *survey) error {
	if len(state.drop) > 0 {
		var in bytes.Buffer
		zero := strings.Repeat("0", s.repo.hexLen())
		for _, path := range slices.Sorted(maps.Keys(state.drop)) {
			fmt.Fprintf(&in, "0 %s\t%s\x00", zero, path)
		}
		if _, err := s.run(ctx, &in, "update-index", "-z", "--index-info"); err != nil {
			return err
		}
	}
	if len(state.add) == 0 {
		return nil
	}
	var in bytes.Buffer
	for _, path := range slices.Sorted(maps.Keys(state.add)) {
		in.WriteString(path)
		in.WriteByte(0)
	}
	// A file may vanish after the survey, hence --remove.
	_, err := s.run(ctx, &in, "update-index", "-z", "--add", "--remove", "--replace", "--stdin")
	return err
}

// A survey collects how an index must change to match the files.
type survey struct {
	root   string
	real   map[string]bool // by directory: whether it is reached without a link
	add    map[string]bool // paths whose file must be read
	drop   map[string]bool // paths that leave the index first
	links  map[string]bool // submodules
	nested []string        // repositories; each ends in a slash
}

// addTracked examines an entry of the index, as list returns it.
func (v *survey) addTracked(entry string) error {
	what, path, ok := strings.Cut(entry, "\t")
	f := strings.Fields(what)
	if !ok || len(f) != 4 {
		return fmt.Errorf("git ls-files: cannot read %q", entry)
	}
	tag, mode, stage := f[0], f[1], f[3]
	merged := stage == "0"
	switch {
	case isPlaits(path):
		v.drop[path] = true
		return nil
	case mode == gitlink:
		v.links[path] = true
		if !merged {
			v.drop[path] = true
		}
		return nil
	case !v.reachedDirectly(filepath.Dir(path)):
		// What is behind a link is not the tracked file.
		v.dropMissing(path, tag)
		return nil
	case merged && tag == "H":
		return nil
	}
	// In conflict, or marked in the index as assumed unchanged.
	return v.checkDirs(path, tag)
}

// addChanged examines a path that differs from the index or is not in it.
func (v *survey) addChanged(path string) error {
	switch {
	case isPlaits(strings.TrimSuffix(path, "/")), v.links[path]:
		return nil
	case strings.HasSuffix(path, "/"):
		if !v.links[strings.TrimSuffix(path, "/")] {
			v.nested = append(v.nested, path)
		}
		return nil
	case !v.reachedDirectly(filepath.Dir(path)):
		v.dropMissing(path, "")
		return nil
	}
	return v.checkDirs(path, "")
}

// checkDirs decides about a path by the file that is there.
func (v *survey) checkDirs(path, tag string) error {
	info, err := os.Lstat(filepath.Join(v.root, path))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		v.dropMissing(path, tag)
		return nil
	case err != nil:
		return err
	}
	if !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 {
		v.dropMissing(path, "")
		return nil
	}
	v.add[path] = true
	if tag != "" {
		v.drop[path] = true // otherwise the mark would hide the file again
	}
	return nil
}

// dropMissing drops a path, unless a sparse checkout excludes it.
func (v *survey) dropMissing(path, tag string) {
	if tag != "S" && tag != "s" {
		v.drop[path] = true
		delete(v.add, path)
	}
}

// reachedDirectly reports whether the directory is reached from the root without a link.
// If it is missing or is a file, it counts as reached: then the path is missing too.
func (v *survey) reachedDirectly(dir string) bool {
	if dir == "." {
		return true
	}
	if known, ok := v.real[dir]; ok {
		return known
	}
	ok := v.reachedDirectly(filepath.Dir(dir))
	if ok {
		info, err := os.Lstat(filepath.Join(v.root, dir))
		ok = err != nil || info.Mode()&fs.ModeSymlink == 0
	}
	v.real[dir] = ok
	return ok
}

// isPlaits reports whether the path is in Plait's own directory.
func isPlaits(path string) bool { return path == plaitDir || strings.HasPrefix(path, plaitDir+"/") }

// records iterates over the output of git with -z: records that end in a NUL.
func records(out []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for rec := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
			if len(rec) > 0 && !yield(string(rec)) {
				return
			}
		}
	}
}
