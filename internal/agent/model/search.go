package model

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/sys/text"
)

// A search is one call of the tool: the project's files, without Plait's own directories and without what Git ignores
// unless the path leads there.
type search struct {
	files  *files
	place  place
	from   string         // where it begins, in the place
	lines  *regexp.Regexp // nil: names of files
	names  *regexp.Regexp // of files, nil: all
	byPath bool           // names are paths

	ignore  ignored
	skipped [len(reasons)][]string // what was not searched
	found   []string
	size    int   // of found
	seen    int   // files
	read    int64 // bytes of files
}

// Reasons not to search something, as a model is told.
var reasons = [...]string{"Git ignores it", "it cannot be read", fmt.Sprintf("it has over %d MiB", maxFile>>20),
	"it is UTF-16", "it is no text"}

const (
	byGit = iota
	unreadable
	large
	wide
	otherData
)

// search returns the lines that match a pattern, or without a pattern the names of files.
func (f *files) search(ctx context.Context, pattern, dir, name string) (string, error) {
	s := search{files: f}
	var err error
	if pattern != "" {
		if s.lines, err = regexp.Compile(pattern); err != nil {
			return "", fmt.Errorf("the pattern is wrong: %w", err)
		}
	}
	if s.byPath = strings.Contains(name, "/"); name != "" {
		name = strings.TrimPrefix(name, "./")
		if strings.HasSuffix(name, "/") {
			name += "**"
		}
		if s.names, err = globbed(name, true); err != nil {
			return "", fmt.Errorf("the name %q is wrong: %w", name, err)
		}
	}
	if s.place, s.from, err = f.find(dir); err != nil {
		return "", err
	}
	s.from = filepath.ToSlash(s.from)
	if s.place.tree {
		s.ignore.begin(s.place.root, s.from)
	}
	err = s.walk(ctx)
	if err == nil && s.seen == 0 && len(s.skipped[byGit]) > 0 && s.from != "." { // the path leads to what is ignored
		s.skipped[byGit], s.ignore.off = nil, true
		err = s.walk(ctx)
	}
	if err != nil {
		return "", plain(dir, err)
	}
	switch full := s.full(); {
	case full && len(s.found) == 0:
		s.found = append(s.found, "[nothing was found in the files that were searched; there are more: give a path]")
	case len(s.found) == 0:
		s.found = append(s.found, "[nothing was found]")
	case full:
		s.found = append(s.found[:min(len(s.found), maxMatches)], "[there may be more: search for less]")
	}
	for why, names := range s.skipped {
		if len(names) == 0 {
			continue
		}
		more := ""
		if n := len(names); n > 3 {
			more = fmt.Sprintf(" and %d more", n-3)
		}
		if why == byGit {
			more += "; give it as path to search it"
		}
		s.found = append(s.found, fmt.Sprintf("[not searched, since %s: %s%s]", reasons[why],
			strings.Join(names[:min(len(names), 3)], ", "), more))
	}
	return strings.Join(s.found, "\n"), nil
}

func (s *search) walk(ctx context.Context) error {
	return fs.WalkDir(s.place.root.FS(), s.from, func(file string, d fs.DirEntry, err error) error {
		return s.visit(ctx, file, d, err)
	})
}

func (s *search) full() bool {
	return s.seen > maxSearched || s.read > maxRead || len(s.found) >= maxMatches || s.size > maxShown
}

// visit handles one file or directory.
func (s *search) visit(ctx context.Context, file string, d fs.DirEntry, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && d == nil:
		return err
	case err != nil: // a directory that cannot be read is passed over
		s.skip(unreadable, file+"/")
		return nil
	case d.IsDir() && (d.Name() == ".git" || ours(file) && !ours(s.from)):
		return fs.SkipDir
	case ours(file) && !ours(s.from):
		return nil
	}
	ignored := s.place.tree && file != s.from && s.ignore.matches(file, d.IsDir())
	if ignored && s.ignore.tracked == nil {
		s.ignore.know(ctx, s.place.dir)
	}
	switch {
	case ignored && !s.ignore.tracked[file]:
		return s.pass(file, d)
	case d.IsDir():
		if s.place.tree {
			s.ignore.enter(s.place.root, file, ignored)
		}
		return nil
	case !d.Type().IsRegular() || !s.named(file):
		return nil
	}
	info, err := d.Info()
	if err == nil && s.lines != nil && info.Size() <= maxFile {
		s.read += info.Size()
	}
	if s.seen++; s.full() {
		return fs.SkipAll
	}
	before := len(s.found)
	s.match(file)
	for _, line := range s.found[before:] {
		s.size += len(line)
	}
	return nil
}

// ours reports whether a path is, or is in, what Plait itself writes into a workspace: logs of tasks, trees of other
// agents.
func ours(file string) bool {
	parts := strings.Split(file, "/")
	at := slices.Index(parts, ".plait")
	return at >= 0 && at+1 < len(parts) && slices.Contains([]string{"tasks", "worktrees", ".gitignore"}, parts[at+1])
}

// pass passes over what Git ignores.
func (s *search) pass(file string, d fs.DirEntry) error {
	if d.IsDir() {
		s.skip(byGit, file+"/")
		return fs.SkipDir
	}
	if s.named(file) {
		s.skip(byGit, file)
	}
	return nil
}

// skip notes that something is not searched.
func (s *search) skip(why int, file string) {
	shown := s.files.shown(s.place, file)
	if strings.HasSuffix(file, "/") {
		shown += "/"
	}
	s.skipped[why] = append(s.skipped[why], shown)
}

// named reports whether a file has a name that is searched for. A path may be relative to the directory that is
// searched or to the working directory.
func (s *search) named(file string) bool {
	if s.names == nil {
		return true
	}
	if !s.byPath {
		return s.names.MatchString(path.Base(file))
	}
	inside := strings.TrimPrefix(file, s.from+"/")
	full := filepath.ToSlash(filepath.Join(s.place.dir, file))
	return s.names.MatchString(inside) || s.names.MatchString("/"+inside) || s.names.MatchString(full) ||
		s.names.MatchString(filepath.ToSlash(s.files.shown(s.place, file)))
}

// match adds the matching lines of a file, with its name and their numbers, or only its name.
func (s *search) match(file string) {
	shown := s.files.shown(s.place, file)
	if s.lines == nil {
		s.found = append(s.found, shown)
		return
	}
	info, err := s.place.root.Stat(file)
	if err == nil && info.Size() > maxFile {
		s.skip(large, file)
		return
	}
	data, err := s.place.root.ReadFile(file)
	switch {
	case err != nil:
		s.skip(unreadable, file)
		return
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		s.skip(wide, file)
		return
	case binary(data):
		s.skip(otherData, file)
		return
	}
	data = bytes.TrimPrefix(data, []byte(byteOrderMark))
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if line = bytes.TrimRight(line, "\r\n"); s.lines.Match(line) {
			s.found = append(s.found, fmt.Sprintf("%s:%d:%s", shown, n, text.Clip(string(line), maxMatch)))
		}
		if len(s.found) >= maxMatches {
			return
		}
	}
}

// shown returns the path of a file for the model.
func (f *files) shown(p place, file string) string {
	full := filepath.Join(p.dir, file)
	if rel, err := filepath.Rel(f.dir, full); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return full
}
