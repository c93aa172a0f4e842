package git

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// A partial clone lacks files that its sparse checkout leaves out, and git would fetch each when it is needed. We fetch
// nothing: worktrees leave out what is not there, with the mark in the index by which git knows that it was not
// removed.

// isPartial reports whether the repository is a partial clone.
func (r *Repo) isPartial() bool {
	for _, kv := range r.shared {
		if kv[0] == "extensions.partialclone" || strings.HasPrefix(kv[0], "remote.") &&
			strings.HasSuffix(kv[0], ".promisor") {
			return true
		}
	}
	return false
}

// missing returns those of the given entries, as ls-tree or ls-files lists them, whose files are not in a partial
// clone.
func (s *session) missing(ctx context.Context, listed []byte) (entries map[string]string, err error) {
	if !s.repo.isPartial() {
		return nil, nil
	}
	objects := map[string]string{} // by path
	var in strings.Builder
	for entry := range records(listed) {
		what, path, _ := strings.Cut(entry, "\t")
		f := strings.Fields(what)
		if len(f) != 3 {
			return nil, fmt.Errorf("git: cannot read entry %q", entry)
		}
		object := f[1]
		if len(object) != s.repo.hexLen() {
			object = f[2]
		}
		if f[0] != gitlink {
			objects[path] = f[0] + " " + object + " 0"
			in.WriteString(object + "\n")
		}
	}
	out, err := s.run(ctx, strings.NewReader(in.String()), "cat-file", "--batch-check=%(objectname)")
	if err != nil {
		return nil, err
	}
	gone := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if object, ok := strings.CutSuffix(strings.TrimSpace(line), " missing"); ok {
			gone[object] = true
		}
	}
	entries = map[string]string{}
	for path, entry := range objects {
		if gone[strings.Fields(entry)[1]] {
			entries[path] = entry
		}
	}
	return entries, nil
}

// leaveOut gives the session's index those of the listed entries whose files are missing, marked such that git expects
// no file there. read-tree then writes none.
func (s *session) leaveOut(ctx context.Context, listed []byte) (missing map[string]string, err error) {
	if missing, err = s.missing(ctx, listed); err != nil || len(missing) == 0 {
		return nil, err
	}
	var edit, skip strings.Builder
	for path, entry := range missing {
		edit.WriteString(entry + "\t" + path + "\x00")
		skip.WriteString(path + "\x00")
	}
	if _, err := s.run(ctx, strings.NewReader(edit.String()), "update-index", "-z", "--index-info"); err != nil {
		return nil, err
	}
	_, err = s.run(ctx, strings.NewReader(skip.String()), "update-index", "-z", "--skip-worktree", "--stdin")
	return missing, err
}

// leaveOutMissing is leaveOut for the entries that the index has.
func (s *session) leaveOutMissing(ctx context.Context) error {
	if !s.repo.isPartial() {
		return nil
	}
	listed, err := s.run(ctx, nil, "ls-files", "-z", "--stage")
	if err == nil {
		_, err = s.leaveOut(ctx, listed)
	}
	return err
}

// writeFiles makes the files of the work tree, and the session's index, those of the tree.
func (s *session) writeFiles(ctx context.Context, tree string) error {
	if s.repo.isPartial() {
		if err := s.clearMissing(ctx, tree); err != nil {
			return err
		}
	}
	_, err := s.run(ctx, nil, "read-tree", "--reset", "-u", tree)
	return err
}

// clearMissing leaves out the files of the tree that are missing, and removes what is in their places.
func (s *session) clearMissing(ctx context.Context, tree string) error {
	listed, err := s.run(ctx, nil, "ls-tree", "-r", "-z", tree)
	if err != nil {
		return err
	}
	missing, err := s.leaveOut(ctx, listed)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(s.cwd)
	if err != nil {
		return err
	}
	defer root.Close()
	for path := range missing {
		if info, err := root.Lstat(path); err == nil && !info.IsDir() {
			if err := drop(root, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// Whole returns an error if the repository is a partial clone that lacks files of the commit of HEAD: without them, no
// bundle can be made.
func (r *Repo) Whole(ctx context.Context) error {
	if !r.isPartial() {
		return nil
	}
	s, err := r.begin(noTree)
	if err != nil {
		return err
	}
	defer s.end()
	head, err := s.head(ctx)
	if err != nil || head == "" {
		return err
	}
	listed, err := s.run(ctx, nil, "ls-tree", "-r", "-z", head)
	if err != nil {
		return err
	}
	missing, err := s.missing(ctx, listed)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf(lacks, "files of its commit")
	}
	return err
}

// lacks says that a partial clone lacks something, and what to do.
const lacks = "a partial clone lacks %s, and plait fetches nothing: get it with: git fetch --refetch --no-filter"

// lacking matches what git says about an object that is not there.
var lacking = regexp.MustCompile(`(?i)unable to read|missing (blob|tree|object)|(bad|invalid|not a valid) ` +
	`object|could not (read|get)|not found`)

// reason returns what git complained about, and what to do if it lacks objects of a partial clone.
func (r *Repo) reason(complaint string) string {
	if !r.isPartial() || !lacking.MatchString(complaint) {
		return complaint
	}
	return fmt.Sprintf(lacks, "what this needs") + " (" + complaint + ")"
}
