package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	maxBundle = 4 << 30 // bytes of a bundle that is accepted
	maxHeader = 4 << 10 // bytes of what precedes the pack
)

// maxFiles is the maximum size of the files of a bundle once unpacked, in bytes: a few kilobytes can unpack to
// fill a disk. Tests lower it.
var maxFiles int64 = 16 << 30

// A Bundle describes the contents of a git bundle: one commit, with the objects that the previous commit
// does not have. The commit is of a snapshot's tree; its author and date are fixed.
type Bundle struct {
	Tree   string
	Commit string
	Onto   string // the previous commit, which must be present first; "": the bundle has the whole tree
}

// onHead precedes the commit that HEAD named, at the end of the message of a bundle's commit.
const onHead = "on "

// MaxKept is the maximum size of a file that a bundle with a beginning has, in bytes: larger ones are only named.
const MaxKept = 64 << 20

// A Packing says what a bundle is to have.
type Packing struct {
	Ref  string // below refs/plait/: keeps the bundle's commit, so that the next one can build on it
	Tree string
	Onto string // the commit of the previous bundle, "" for none
	// Begun is the tree that the files were at first. If there is no previous commit, the bundle builds on a commit of
	// it: the one of HEAD if that has just these files. "": then the bundle has the whole tree.
	Begun   string
	Bounded bool // refuse files that Unbundle would not accept: the error then matches ErrRefused
}

// Bundle writes the files of a tree as a git bundle. The same request is answered with the same bytes, whatever git
// has packed meanwhile, as long as git is the same. The file is already unlinked; the caller must close it.
func (r *Repo) Bundle(ctx context.Context, p Packing) (b Bundle, bytes *os.File, err error) {
	if b, bytes, err = r.bundle(ctx, p); err != nil {
		return b, nil, fmt.Errorf("bundle tree %s: %w", p.Tree, err)
	}
	return b, bytes, nil
}

func (r *Repo) bundle(ctx context.Context, p Packing) (b Bundle, file *os.File, err error) {
	if err := checkRef(p.Ref); err != nil {
		return b, nil, err
	}
	for _, hex := range []string{p.Tree, p.Onto, p.Begun} {
		if err := r.checkHex(hex); hex != "" && err != nil {
			return b, nil, err
		}
	}
	s, err := r.begin(noTree)
	if err != nil {
		return b, nil, err
	}
	defer s.end()
	if p.Bounded {
		if err := s.checkSize(ctx, p.Tree, ErrRefused); err != nil {
			return b, nil, err
		}
	}
	head, err := s.place(ctx, p, &b)
	if err != nil {
		return b, nil, err
	}
	if b.Commit, err = s.commitFiles(ctx, b.Tree, head, b.Onto); err != nil {
		return b, nil, err
	}
	if err := s.setRef(ctx, p.Ref, b.Commit); err != nil {
		return b, nil, err
	}
	file, err = s.pack(ctx, p, b)
	if err == nil && p.Bounded {
		var info os.FileInfo
		if info, err = file.Stat(); err == nil && info.Size() > maxBundle {
			err = fmt.Errorf("%w: it has over %d bytes", ErrRefused, maxBundle)
		}
	}
	if err != nil && file != nil {
		file.Close()
	}
	return b, file, err
}

// place sets the tree of a bundle and the commit that it builds on, and returns that of HEAD, "" for none.
func (s *session) place(ctx context.Context, p Packing, b *Bundle) (head string, err error) {
	names := []string{"HEAD^{commit}", "HEAD^{tree}", p.Tree + "^{tree}"}
	if p.Onto != "" {
		names = append(names, p.Onto+"^{commit}")
	}
	out, err := s.run(ctx, strings.NewReader(strings.Join(names, "\n")+"\n"), "cat-file", "--batch-check=%(objectname)")
	if err != nil {
		return "", err
	}
	found := strings.Split(string(out), "\n")
	for i, name := range found {
		if s.repo.checkHex(name) != nil {
			found[i] = "" // it is missing
		}
	}
	if len(found) <= len(names) || found[2] == "" {
		return "", fmt.Errorf("git cat-file: no tree in %q", out)
	}
	head, b.Tree = found[0], found[2]
	switch {
	case p.Onto != "" && found[3] != "":
		b.Onto = found[3]
	case p.Begun != "" && p.Begun == found[1]:
		b.Onto = head
	case p.Begun != "":
		b.Onto, err = s.commitFiles(ctx, p.Begun, head, "")
	}
	return head, err
}

// commitFiles makes a commit whose message names that of HEAD.
func (s *session) commitFiles(ctx context.Context, tree, head, parent string) (string, error) {
	args := []string{"commit-tree", tree, "-m", "files"}
	if head != "" {
		args = append(args, "-m", onHead+head)
	}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	return s.line(ctx, args...)
}

// pack writes a bundle. What git makes of the same objects would depend on how it had packed them before, and on its
// number of threads, which hardened sets.
func (s *session) pack(ctx context.Context, p Packing, b Bundle) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(s.dir, "bundle"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	header, revs := "# v2 git bundle\n", b.Commit+"\n"
	if s.repo.format != "sha1" {
		header = "# v3 git bundle\n@object-format=" + s.repo.format + "\n"
	}
	if b.Onto != "" {
		header += "-" + b.Onto + "\n"
		revs += "^" + b.Onto + "\n"
	}
	args := []string{"pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "--no-reuse-object",
		"--quiet"}
	if p.Begun != "" {
		args = append(args, "--filter=blob:limit="+strconv.Itoa(MaxKept+1))
	}
	if _, err = file.WriteString(header + b.Commit + " " + p.Ref + "\n\n"); err == nil {
		_, err = s.runTo(ctx, file, math.MaxInt64, strings.NewReader(revs), args...)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// Unbundle adds the commit of a bundle and its objects to the repository and keeps them under a ref below
// refs/plait/. The bytes are not trusted. They are refused unless they contain exactly what want says, in
// objects that pass git's own checks, and within limits; the repository is touched only after that.
func (r *Repo) Unbundle(ctx context.Context, ref string, want Bundle, in io.Reader) error {
	if err := r.unbundle(ctx, ref, want, in); err != nil {
		return fmt.Errorf("unbundle tree %s: %w", want.Tree, err)
	}
	return nil
}

func (r *Repo) unbundle(ctx context.Context, ref string, want Bundle, in io.Reader) error {
	names := []string{want.Tree, want.Commit}
	if want.Onto != "" {
		names = append(names, want.Onto)
	}
	for _, hex := range names {
		if err := r.checkHex(hex); err != nil {
			return err
		}
	}
	if err := checkRef(ref); err != nil {
		return err
	}
	buffered := bufio.NewReader(in)
	if err := r.checkHeader(buffered, want); err != nil {
		return err
	}
	s, err := r.begin(noTree)
	if err != nil {
		return err
	}
	defer s.end()
	pack, apart, err := s.quarantine(ctx, buffered)
	if err != nil {
		return err
	}
	defer pack.Close()
	if err := apart.checkFiles(ctx, want); err != nil {
		return err
	}
	if _, err := s.run(ctx, pack, "index-pack", "--stdin"); err != nil {
		return err
	}
	return s.setRef(ctx, ref, want.Commit)
}

// errBundle reports that bytes are not a bundle, or not the expected one.
var errBundle = errors.New("not the expected bundle")

// BundleOnto reads the beginning of a bundle and returns the commit that must be present before Unbundle, or ""
// if there is none.
func BundleOnto(in io.Reader) (onto string, err error) {
	lines, err := readHeader(bufio.NewReader(in))
	if err != nil {
		return "", err
	}
	for _, line := range lines {
		if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(name, "-") {
			if onto != "" {
				return "", fmt.Errorf("%w: it follows more than one commit", errBundle)
			}
			onto = name[1:]
		}
	}
	return onto, nil
}

// readHeader reads the lines before the pack.
func readHeader(in *bufio.Reader) (lines []string, err error) {
	for size := 0; ; {
		line, err := in.ReadSlice('\n')
		if size += len(line); err != nil || size > maxHeader {
			return nil, fmt.Errorf("%w: its header is cut or too long", errBundle)
		}
		if len(line) == 1 {
			return lines, nil
		}
		lines = append(lines, strings.TrimSuffix(string(line), "\n"))
	}
}

// checkHeader reads and checks what precedes the pack: the format, the commit it requires, and one ref.
func (r *Repo) checkHeader(in *bufio.Reader, want Bundle) error {
	lines, err := readHeader(in)
	if err != nil {
		return err
	}
	var onto, commits []string
	for i, line := range lines {
		switch name, _, _ := strings.Cut(line, " "); {
		case i == 0 && (line == "# v2 git bundle" && r.format == "sha1" || line == "# v3 git bundle"):
		case i > 0 && line == "@object-format="+r.format:
		case i > 0 && strings.HasPrefix(name, "-"):
			onto = append(onto, name[1:])
		case i > 0 && !strings.HasPrefix(name, "@"):
			commits = append(commits, name)
		default:
			return fmt.Errorf("%w: %.60q in its header", errBundle, line)
		}
	}
	var before []string
	if want.Onto != "" {
		before = []string{want.Onto}
	}
	if len(lines) == 0 || !slices.Equal(commits, []string{want.Commit}) || !slices.Equal(onto, before) {
		return fmt.Errorf("%w: it has commit %q after %q", errBundle, commits, onto)
	}
	return nil
}

// quarantine lets git check a pack in the session's own directory, which sees the repository's objects. It
// returns the pack, completed with its base objects, and a session that sees it.
func (s *session) quarantine(ctx context.Context, in io.Reader) (*os.File, *session, error) {
	apart, objects, err := s.apart()
	if err != nil {
		return nil, nil, err
	}
	_, err = apart.run(ctx, in, "index-pack", "--stdin", "--fix-thin", "--strict",
		"--max-input-size="+strconv.Itoa(maxBundle))
	if err != nil && strings.Contains(err.Error(), "did not receive expected object") {
		err = fmt.Errorf("a file of over %d MiB was not kept, and is not in this repository: %w", MaxKept>>20, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errBundle, err)
	}
	packs, err := filepath.Glob(filepath.Join(objects, "pack", "*.pack"))
	if err != nil || len(packs) != 1 {
		return nil, nil, fmt.Errorf("%w: %d packs", errBundle, len(packs))
	}
	pack, err := os.Open(packs[0])
	return pack, apart, err
}

// checkFiles checks that the commit has the expected tree and parent and all its objects, and that its files are
// not too large.
func (s *session) checkFiles(ctx context.Context, want Bundle) error {
	tree, err := s.treeOf(ctx, want.Commit)
	if err != nil || tree != want.Tree {
		return fmt.Errorf("%w: its commit has the tree %q: %w", errBundle, tree, err)
	}
	before, err := s.line(ctx, "rev-list", "--parents", "--max-count=1", want.Commit)
	if err != nil || strings.TrimSpace(before) != strings.TrimSpace(want.Commit+" "+want.Onto) {
		return fmt.Errorf("%w: its commit follows %q: %w", errBundle, before, err)
	}
	walk := []string{"rev-list", "--objects", "--quiet", want.Commit}
	if want.Onto != "" {
		walk = append(walk, "^"+want.Onto) // it was checked when it arrived, or is the remote's
	}
	if _, err := s.run(ctx, nil, walk...); err != nil {
		return fmt.Errorf("%w: %w", errBundle, err)
	}
	return s.checkSize(ctx, want.Tree, errBundle)
}

// checkSize returns an error that matches tooLarge if the files of a tree are too large.
func (s *session) checkSize(ctx context.Context, tree string, tooLarge error) error {
	files, err := s.run(ctx, nil, "ls-tree", "-r", "-z", "--format=%(objectsize)", tree)
	if err != nil {
		return err
	}
	total := int64(0)
	for size := range bytes.SplitSeq(bytes.TrimSuffix(files, []byte{0}), []byte{0}) {
		n, _ := strconv.ParseInt(string(size), 10, 64) // a submodule has none
		if total += n; total > maxFiles {
			return fmt.Errorf("%w: its files have over %d bytes", tooLarge, maxFiles)
		}
	}
	return nil
}

// Origin returns the commit that HEAD named when a bundle's commit was made, or "" if there was none or
// the repository does not have it.
func (r *Repo) Origin(ctx context.Context, commit string) (string, error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("read what %s was made on: %w", commit, err)
	}
	if err := r.checkHex(commit); err != nil {
		return fail(err)
	}
	s, err := r.begin(noTree)
	if err != nil {
		return fail(err)
	}
	defer s.end()
	message, err := s.line(ctx, "show", "--no-patch", "--format=%b", commit)
	if err != nil {
		return fail(err)
	}
	head, ok := strings.CutPrefix(strings.TrimSpace(message), onHead)
	if !ok || r.checkHex(head) != nil {
		return "", nil
	}
	if head, err = s.resolveRev(ctx, head+"^{commit}"); err != nil {
		return fail(err)
	}
	return head, nil
}

// Published returns the newest commit up to HEAD that the named remote has, as far as this repository knows, or ""
// if there is none.
func (r *Repo) Published(ctx context.Context, remote string) (string, error) {
	commit, err := r.published(ctx, remote)
	if err != nil {
		return "", fmt.Errorf("find what %s has of %s: %w", remote, r.root, err)
	}
	return commit, nil
}

func (r *Repo) published(ctx context.Context, remote string) (string, error) {
	if remote == "" || strings.Trim(remote, refChars) != "" {
		return "", fmt.Errorf("remote %q: want letters, digits, dots and dashes", remote)
	}
	s, err := r.begin(noTree)
	if err != nil {
		return "", err
	}
	defer s.end()
	head, err := s.head(ctx)
	if err != nil || head == "" {
		return "", err
	}
	own, err := s.run(ctx, nil, "rev-list", "--boundary", head, "--not", "--remotes="+remote)
	if err != nil {
		return "", err
	}
	if len(own) == 0 {
		return head, nil
	}
	for line := range strings.Lines(string(own)) {
		if commit, ok := strings.CutPrefix(strings.TrimSpace(line), "-"); ok {
			return commit, nil
		}
	}
	return "", nil
}

// Keep keeps a tree under a ref below refs/plait/, like a snapshot taken when HEAD was the commit on, or "" for
// none. A branch can be made from it.
func (r *Repo) Keep(ctx context.Context, ref, tree, on string) error {
	if err := r.keep(ctx, ref, tree, on); err != nil {
		return fmt.Errorf("keep tree %s: %w", tree, err)
	}
	return nil
}

func (r *Repo) keep(ctx context.Context, ref, tree, on string) error {
	if err := checkRef(ref); err != nil {
		return err
	}
	s, err := r.begin(noTree)
	if err != nil {
		return err
	}
	defer s.end()
	return s.commitTreeOn(ctx, tree, ref, on)
}
