package git

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// An Annotator says which commits the lines of a file are from, and which lines of a blob are those of another. Blobs
// can be made up for that, and exist only while it is open. It writes nothing to the repository, and must not be used
// concurrently.
type Annotator struct {
	s       *session
	objects string            // where its objects are
	trees   map[string]string // by the blob of their only file
	reads   *dialog
	diffs   *dialog
}

// Annotator returns an Annotator, which must be closed.
func (r *Repo) Annotator() (*Annotator, error) {
	s, err := r.begin(ownTree) // in a bare repository git blame takes no contents
	if err != nil {
		return nil, fmt.Errorf("annotate: %w", err)
	}
	apart, objects, err := s.apart()
	if err != nil {
		s.end()
		return nil, fmt.Errorf("annotate: %w", err)
	}
	return &Annotator{s: apart, objects: objects, trees: map[string]string{}}, nil
}

// Close removes what was made up.
func (a *Annotator) Close() {
	a.reads.end()
	a.diffs.end()
	a.s.end()
}

// An Annotation is where a line is from.
type Annotation struct {
	Commit string // "" if it is not committed
	Path   string // of the file in that commit
	From   string // what the file was called in the commit before, "" if there was none
	N      int    // of the line there, from 1
	Text   string // without the line's end
}

// Committed returns where the lines of a file come from, if its contents are what is given, which need not be
// committed. The path is relative to the root, with slashes.
func (a *Annotator) Committed(ctx context.Context, path string, contents []byte) ([]Annotation, error) {
	out, err := a.s.run(ctx, bytes.NewReader(contents), "blame", "--porcelain", "--contents", "-", "--", path)
	var lines []Annotation
	if err == nil {
		lines, err = readBlame(out)
	}
	if err != nil {
		return nil, fmt.Errorf("annotate %s: %w", path, err)
	}
	for i := range lines {
		if strings.Trim(lines[i].Commit, "0") == "" {
			lines[i].Commit = ""
		}
	}
	return lines, nil
}

// readBlame parses what git blame --porcelain prints.
func readBlame(out []byte) (list []Annotation, err error) {
	paths, from := map[string]string{}, map[string]string{} // by commit
	var at Annotation
	if len(out) == 0 {
		return nil, nil
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "\t"):
			at.Path, at.From, at.Text = paths[at.Commit], from[at.Commit], line[1:]
			list = append(list, at)
			at = Annotation{}
		case at.Commit == "":
			f := strings.Fields(line)
			if len(f) < 3 {
				return nil, fmt.Errorf("git blame: cannot read %q", line)
			}
			at.Commit = f[0]
			if at.N, err = strconv.Atoi(f[1]); err != nil {
				return nil, fmt.Errorf("git blame: cannot read %q", line)
			}
		case strings.HasPrefix(line, "filename "):
			if paths[at.Commit], err = unquote(strings.TrimPrefix(line, "filename ")); err != nil {
				return nil, err
			}
		case strings.HasPrefix(line, "previous "):
			_, name, _ := strings.Cut(strings.TrimPrefix(line, "previous "), " ")
			if from[at.Commit], err = unquote(name); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// unquote returns a path that git may have put in quotes.
func unquote(path string) (string, error) {
	if !strings.HasPrefix(path, `"`) {
		return path, nil
	}
	plain, err := strconv.Unquote(path)
	if err != nil {
		return "", fmt.Errorf("git blame: cannot read the path %s", path)
	}
	return plain, nil
}

// Objects returns the ids of objects that are named in the way of git rev-parse, "" for those that do not exist.
func (a *Annotator) Objects(ctx context.Context, names []string) ([]string, error) {
	var in bytes.Buffer
	for _, name := range names {
		if strings.ContainsAny(name, "\x00\n") {
			return nil, fmt.Errorf("find objects: %q cannot be looked for", name)
		}
		in.WriteString(name + "\n")
	}
	out, err := a.s.run(ctx, &in, "cat-file", "--batch-check=%(objectname)")
	if err != nil {
		return nil, fmt.Errorf("find objects: %w", err)
	}
	var ids []string
	for line := range strings.Lines(string(out)) {
		id := strings.TrimSuffix(line, "\n")
		if a.s.repo.checkHex(id) != nil { // "… missing"
			id = ""
		}
		ids = append(ids, id)
	}
	if len(ids) != len(names) {
		return nil, fmt.Errorf("find objects: %d answers for %d names", len(ids), len(names))
	}
	return ids, nil
}

// A Commit is what is shown of a commit.
type Commit struct {
	ID        string
	Parents   []string
	Author    string
	Committed time.Time
	Subject   string
}

// Commits reads commits.
func (a *Annotator) Commits(ctx context.Context, ids []string) ([]Commit, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	out, err := a.s.run(ctx, strings.NewReader(strings.Join(ids, "\n")+"\n"), "log", "--no-walk=unsorted", "--stdin",
		"-z", "--format=%H%n%P%n%ct%n%an%n%s")
	if err != nil {
		return nil, fmt.Errorf("read commits: %w", err)
	}
	var list []Commit
	for rec := range records(out) {
		f := strings.SplitN(rec, "\n", 5)
		if len(f) < 5 {
			return nil, fmt.Errorf("read commits: cannot read %q", rec)
		}
		at, _ := strconv.ParseInt(f[2], 10, 64) // git prints a number
		list = append(list, Commit{ID: f[0], Parents: strings.Fields(f[1]), Committed: time.Unix(at, 0), Author: f[3],
			Subject: f[4]})
	}
	return list, nil
}

// A FileChange is how a file differs between two trees.
type FileChange struct {
	Path, From string // From is set if it was renamed
	Old, New   string // blobs, "" for none
}

// Changes compares pairs of trees, which must exist, and returns what git prints, for [ReadChanges].
func (a *Annotator) Changes(ctx context.Context, pairs [][2]string) ([]byte, error) {
	var in bytes.Buffer
	for _, p := range pairs {
		if err := errors.Join(a.s.repo.checkHex(p[0]), a.s.repo.checkHex(p[1])); err != nil {
			return nil, fmt.Errorf("compare trees: %w", err)
		}
		fmt.Fprintf(&in, "%s %s\n", p[0], p[1])
	}
	out, err := a.s.run(ctx, &in, "diff-tree", "--stdin", "-r", "-z", "-M", "--raw", "--no-ext-diff", "--full-index")
	if err != nil {
		return nil, fmt.Errorf("compare trees: %w", err)
	}
	return out, nil
}

// ReadChanges parses what diff-tree prints: for each pair of trees a line with their names, which ends in a newline, then
// ":<mode> <mode> <old> <new> <letter>", and one path or, for a rename, two; each of these ends in a NUL. Submodules are
// left out.
func ReadChanges(printed []byte) (map[[2]string][]FileChange, error) {
	all, pair, out := map[[2]string][]FileChange{}, [2]string{}, string(printed)
	var err error
	next := func(end string) string {
		field, rest, ok := strings.Cut(out, end)
		if !ok {
			err = errors.New("git diff-tree: cut short")
		}
		out = rest
		return field
	}
	for out != "" && err == nil {
		if out[0] != ':' {
			before, after, _ := strings.Cut(next("\n"), " ")
			pair = [2]string{before, after}
			all[pair] = nil
			continue
		}
		f := strings.Fields(next("\x00"))
		if len(f) != 5 || pair[1] == "" {
			return nil, errors.New("git diff-tree: cannot read a change")
		}
		c := FileChange{Path: next("\x00"), Old: f[2], New: f[3]}
		if f[4][0] == 'R' {
			c.From, c.Path = c.Path, next("\x00")
		}
		for _, side := range []struct {
			mode string
			blob *string
		}{{f[0], &c.Old}, {f[1], &c.New}} {
			if side.mode = strings.TrimPrefix(side.mode, ":"); !strings.HasPrefix(side.mode, "1") || side.mode == gitlink {
				*side.blob = ""
			}
		}
		all[pair] = append(all[pair], c)
	}
	return all, err
}

// Contents reads a blob.
func (a *Annotator) Contents(ctx context.Context, id string) (string, error) {
	if a.reads == nil {
		a.reads = a.s.dialog(ctx, "cat-file", "--batch=%(objectsize)")
	}
	line, err := a.reads.ask(id + "\n")
	if err != nil {
		return "", fmt.Errorf("read a blob: %w", err)
	}
	n, err := strconv.Atoi(line)
	if err != nil {
		return "", fmt.Errorf("read a blob: %q", line) // "… missing"
	}
	data := make([]byte, n+1)
	if _, err = io.ReadFull(a.reads.out, data); err != nil {
		return "", fmt.Errorf("read a blob: %w", err)
	}
	return string(data[:n]), nil
}

// A Hunk is where two blobs differ: lines of the old one, from 1, in place of which the new one has others.
type Hunk struct{ Old, Olds, New, News int }

// Diff returns where two blobs differ, as git blame sees it.
func (a *Annotator) Diff(ctx context.Context, before, after string) (list []Hunk, err error) {
	var trees [2]string
	for i, blob := range []string{before, after} {
		if trees[i], err = a.tree(blob); err != nil {
			return nil, err
		}
	}
	if a.diffs == nil {
		a.diffs = a.s.dialog(ctx, "diff-tree", "--stdin", "-p", "-U0", "--text", "--no-ext-diff", "--no-textconv",
			"--indent-heuristic")
	}
	const over = "over" // git prints what is not the name of a tree, and the lines of a patch begin otherwise
	for line, err := a.diffs.ask(trees[0] + " " + trees[1] + "\n" + over + "\n"); line != over; line, err = a.diffs.line() {
		if err != nil {
			return nil, fmt.Errorf("compare blobs: %w", err)
		}
		if strings.HasPrefix(line, "@@ ") {
			h, err := readHunk(line)
			if err != nil {
				return nil, fmt.Errorf("compare blobs: %w", err)
			}
			list = append(list, h)
		}
	}
	return list, nil
}

// readHunk parses "@@ -<from>,<count> +<from>,<count> @@". A count of 1 is not there; with one of 0 git names the line
// before.
func readHunk(line string) (h Hunk, err error) {
	f := strings.Fields(line)
	if len(f) < 3 {
		return h, fmt.Errorf("git diff-tree: cannot read %q", line)
	}
	for i, to := range [][2]*int{{&h.Old, &h.Olds}, {&h.New, &h.News}} {
		from, count, ok := strings.Cut(strings.TrimLeft(f[i+1], "-+"), ",")
		if !ok {
			count = "1"
		}
		var e1, e2 error
		*to[0], e1 = strconv.Atoi(from)
		*to[1], e2 = strconv.Atoi(count)
		if e1 != nil || e2 != nil {
			return h, fmt.Errorf("git diff-tree: cannot read %q", line)
		}
		if *to[1] == 0 {
			*to[0]++
		}
	}
	return h, nil
}

// Blob makes up a blob.
func (a *Annotator) Blob(data []byte) (id string, err error) { return a.write("blob", data) }

// tree makes up a tree that has one file, a blob.
func (a *Annotator) tree(blob string) (id string, err error) {
	if id := a.trees[blob]; id != "" {
		return id, nil
	}
	raw, err := hex.DecodeString(blob)
	if err != nil {
		return "", fmt.Errorf("make up a tree: %w", err)
	}
	id, err = a.write("tree", append([]byte("100644 file\x00"), raw...))
	a.trees[blob] = id
	return id, err
}

// write writes an object. They are few and short-lived, so each is a file.
func (a *Annotator) write(kind string, data []byte) (id string, err error) {
	var sum hash.Hash = sha1.New()
	if a.s.repo.format == "sha256" {
		sum = sha256.New()
	}
	data = append(fmt.Appendf(nil, "%s %d\x00", kind, len(data)), data...)
	sum.Write(data)
	id = fmt.Sprintf("%x", sum.Sum(nil))
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	z.Write(data)
	z.Close()
	dir := filepath.Join(a.objects, id[:2])
	if err = os.MkdirAll(dir, 0o700); err == nil {
		err = os.WriteFile(filepath.Join(dir, id[2:]), packed.Bytes(), 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("make up a %s: %w", kind, err)
	}
	return id, nil
}
