package git

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/sys/proc"
)

const (
	// maxOutput limits the output of git, in bytes.
	maxOutput = 256 << 20
	// maxDialog limits all answers of a git that is asked more than once, in bytes.
	maxDialog = 8 << 30
	// maxComplaint limits the part of git's stderr that an error quotes, in bytes.
	maxComplaint = 2000
	// staleAge is the age at which a private git directory counts as left over from a crash.
	staleAge = 24 * time.Hour
	// stopGrace is how long git may take to remove its locks.
	stopGrace = 2 * time.Second
)

// hardened is part of every command line, where no file can override it.
var hardened = []string{
	"--no-pager",
	"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false",
	"-c", "core.attributesFile=/dev/null", "-c", "core.sshCommand=false", "-c", "core.pager=cat",
	"-c", "core.editor=false", "-c", "core.askPass=false", "-c", "core.splitIndex=false",
	"-c", "core.logAllRefUpdates=false", "-c", "core.sparseCheckout=false", "-c", "core.commitGraph=false",
	"-c", "core.quotePath=true", "-c", "core.safecrlf=false", "-c", "core.trustctime=true",
	"-c", "core.fsync=committed,loose-object", "-c", "core.fsyncMethod=batch",
	"-c", "diff.ignoreSubmodules=all", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
	"-c", "commit.gpgSign=false", "-c", "tag.gpgSign=false", "-c", "protocol.allow=never",
	"-c", "credential.helper=", "-c", "submodule.recurse=false", "-c", "index.sparse=false",
	"-c", "advice.addEmbeddedRepo=false", "-c", "i18n.commitEncoding=UTF-8",
	"-c", "pack.threads=1", "-c", "pack.useBitmaps=false",
}

// environment is all of git's environment, besides the variables for its directories. PATH
// leads nowhere: git finds its own programs without it, and must find no others.
var environment = []string{
	"PATH=/dev/null", "HOME=/dev/null", "XDG_CONFIG_HOME=/dev/null", "LC_ALL=C", "TZ=UTC", "TERM=dumb",
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
	"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1",
	"GIT_ALLOW_PROTOCOL=none", "GIT_ADVICE=0",
	"GIT_AUTHOR_NAME=plait", "GIT_AUTHOR_EMAIL=plait@localhost", "GIT_AUTHOR_DATE=@0 +0000",
	"GIT_COMMITTER_NAME=plait", "GIT_COMMITTER_EMAIL=plait@localhost", "GIT_COMMITTER_DATE=@0 +0000",
}

// program finds git, which must not be inside the work tree.
func program(root string) (string, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return "", ErrNoGit
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil || !filepath.IsAbs(path) {
		return "", ErrNoGit
	}
	if rel, err := filepath.Rel(root, real); err != nil || filepath.IsLocal(rel) {
		return "", fmt.Errorf("%w: git itself, %s, lies in it", ErrRefused, path)
	}
	return path, nil
}

// scratch returns the directory for private git directories. The temporary
// directory is not suitable: sandboxes let agents write there.
func scratch() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a private directory: %w", err)
	}
	dir := filepath.Join(cache, "plait", "git")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a private directory: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", fmt.Errorf("find a private directory: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s is not private: it must be ours, with mode 0700", dir)
	}
	left, _ := os.ReadDir(dir)
	for _, d := range left {
		if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > staleAge {
			os.RemoveAll(filepath.Join(dir, d.Name()))
		}
	}
	return dir, nil
}

// A session is a private git directory for one operation. It has the
// repository's objects and refs, a copy of HEAD, and its own index and config.
type session struct {
	repo *Repo
	dir  string   // the git directory
	cwd  string   // where git is run
	env  []string // all of git's environment
}

// Values for the work tree of a session that are not directories.
const (
	noTree  = ""
	ownTree = "apart" // an empty one that belongs to the session
)

// begin makes a session with a work tree, or with none.
func (r *Repo) begin(tree string) (*session, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(r.scratch, "op-")
	if err != nil {
		return nil, err
	}
	s := &session{repo: r, dir: dir, cwd: dir}
	s.env = append(slices.Clone(environment), "GIT_DIR="+dir, "GIT_INDEX_FILE="+s.index(), "GIT_CEILING_DIRECTORIES="+
		filepath.Dir(dir))
	if tree == ownTree {
		tree = filepath.Join(dir, "work")
		if err := os.Mkdir(tree, 0o700); err != nil {
			s.end()
			return nil, err
		}
	}
	if tree != noTree {
		s.cwd = tree
		s.env = append(s.env, "GIT_WORK_TREE="+tree)
	}
	if err := s.populate(tree == noTree); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

func (s *session) index() string { return filepath.Join(s.dir, "index") }

// populate fills the private git directory: links to the repository's objects and refs,
// copies of HEAD and of the excludes, and our config.
func (s *session) populate(bare bool) error {
	r := s.repo
	for _, name := range []string{"objects", "refs", "packed-refs"} {
		if err := os.Symlink(filepath.Join(r.common, name), filepath.Join(s.dir, name)); err != nil {
			return err
		}
	}
	shared, _ := filepath.Glob(filepath.Join(r.gitdir, "sharedindex.*"))
	for _, path := range shared {
		if err := os.Symlink(path, filepath.Join(s.dir, filepath.Base(path))); err != nil {
			return err
		}
	}
	head, err := readSmall(filepath.Join(r.gitdir, "HEAD"))
	if err != nil {
		return err
	}
	ignore := ""
	if !bare {
		ignore, err = readSmall(filepath.Join(r.common, "info", "exclude"))
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return err
		}
	}
	var config strings.Builder
	fmt.Fprintf(&config, "[core]\n\trepositoryformatversion = 1\n\tbare = %t\n[extensions]\n\tobjectformat = %s\n",
		bare, r.format)
	for key, value := range r.config {
		section, name, _ := strings.Cut(key, ".")
		fmt.Fprintf(&config, "[%s]\n\t%s = %s\n", section, name, value)
	}
	texts := map[string]string{"HEAD": head, "config": config.String()}
	if ignore != "" {
		if err := os.Mkdir(filepath.Join(s.dir, "info"), 0o700); err != nil {
			return err
		}
		texts["info/exclude"] = ignore
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// apart returns the session with a directory of its own for new objects, which goes with it.
func (s *session) apart() (apart *session, objects string, err error) {
	objects = filepath.Join(s.dir, "apart-objects")
	if err := os.MkdirAll(filepath.Join(objects, "pack"), 0o700); err != nil {
		return nil, "", err
	}
	own := *s
	own.env = append(slices.Clone(s.env), "GIT_OBJECT_DIRECTORY="+objects,
		"GIT_ALTERNATE_OBJECT_DIRECTORIES="+strconv.Quote(filepath.Join(s.repo.common, "objects")))
	return &own, objects, nil
}

func (s *session) end() { os.RemoveAll(s.dir) }

// A failure is a run of git that exited with an error.
type failure struct {
	verb   string
	exit   int
	stderr string
}

func (e *failure) Error() string {
	if e.stderr == "" {
		return fmt.Sprintf("git %s: exit %d", e.verb, e.exit)
	}
	return fmt.Sprintf("git %s: exit %d: %s", e.verb, e.exit, e.stderr)
}

// Is reports whether git met an error of the system that means a full disk.
func (e *failure) Is(target error) bool {
	return target == syscall.ENOSPC && strings.Contains(e.stderr, "No space left on device") ||
		target == syscall.EDQUOT && strings.Contains(e.stderr, "Disk quota exceeded")
}

// errLong reports that output exceeds the limit.
var errLong = errors.New("output too long")

// run runs git; nothing else but talk does. It returns stdout even with a failure:
// some commands report their answer in the exit code, too.
func (s *session) run(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	out, _, err := s.runWithin(ctx, maxOutput, stdin, args...)
	return out, err
}

// runWithin is like run, with an output limit in bytes; beyond it the error is errLong, with
// the output up to there. It also returns the beginning of stderr.
func (s *session) runWithin(ctx context.Context, limit int64, stdin io.Reader,
	args ...string) (stdout []byte, complaint string, err error) {
	var out bytes.Buffer
	complaint, err = s.runTo(ctx, &out, limit, stdin, args...)
	return out.Bytes(), complaint, err
}

// runTo is like runWithin, with a writer for stdout.
func (s *session) runTo(ctx context.Context, stdout io.Writer, limit int64, stdin io.Reader,
	args ...string) (complaint string, err error) {
	path := slices.Clone(hardened)
	if s.repo.ignore != "" {
		path = append(path, "-c", "core.excludesFile="+s.repo.ignore)
	}
	var errs bytes.Buffer
	res, err := proc.Run(ctx, proc.Config{
		Path: s.repo.git, Args: append(path, args...), Dir: s.cwd, Env: s.env,
		Stdin: stdin, Stdout: stdout, Stderr: &errs, MaxBytes: limit,
		Wall: Patience, Grace: stopGrace, Signals: []syscall.Signal{syscall.SIGTERM},
	})
	verb := args[0]
	complaint = strings.ToValidUTF8(strings.TrimSpace(string(errs.Bytes()[:min(errs.Len(), maxComplaint)])), "\uFFFD")
	switch {
	case err != nil:
		return "", fmt.Errorf("git %s: %w", verb, err)
	case res.Reason == proc.Cancelled:
		return "", fmt.Errorf("git %s: %w", verb, context.Cause(ctx))
	case res.Reason == proc.Capped:
		return "", fmt.Errorf("git %s: %w: over %d bytes", verb, errLong, limit)
	case res.Reason != "":
		return "", fmt.Errorf("git %s: stopped: %s", verb, res.Reason)
	case res.Exit != 0:
		return "", &failure{verb: verb, exit: res.Exit, stderr: s.repo.reason(complaint)}
	}
	return complaint, nil
}

// A dialog is a git that answers until its input ends.
type dialog struct {
	in   *io.PipeWriter
	from *io.PipeReader
	out  *bufio.Reader // of from
	over chan struct{}
}

// dialog starts a git that answers what it is asked, until end.
func (s *session) dialog(ctx context.Context, args ...string) *dialog {
	asked, in := io.Pipe()
	from, answers := io.Pipe()
	d := &dialog{in, from, bufio.NewReader(from), make(chan struct{})}
	go func() {
		defer close(d.over)
		_, err := s.runTo(ctx, answers, maxDialog, asked, args...)
		answers.CloseWithError(cmp.Or(err, io.ErrUnexpectedEOF))
		asked.Close()
	}()
	return d
}

// ask returns the first line of the answer.
func (d *dialog) ask(text string) (string, error) {
	io.WriteString(d.in, text) // if git has ended, so have the answers
	return d.line()
}

func (d *dialog) line() (string, error) {
	line, err := d.out.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// end ends git, and waits for it. A nil dialog has not begun.
func (d *dialog) end() {
	if d != nil {
		d.in.Close()
		d.from.Close()
		<-d.over
	}
}

// line is run for commands that print one line.
func (s *session) line(ctx context.Context, args ...string) (string, error) {
	out, err := s.run(ctx, nil, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// head returns the commit that HEAD names, or "" if there is none yet.
func (s *session) head(ctx context.Context) (string, error) {
	return s.resolveRev(ctx, "HEAD^{commit}")
}

// resolveRev returns the object that a revision names, or "" if there is none.
func (s *session) resolveRev(ctx context.Context, rev string) (string, error) {
	hex, err := s.line(ctx, "rev-parse", "--verify", "--quiet", rev)
	var f *failure
	if errors.As(err, &f) && f.exit == 1 {
		return "", nil
	}
	return hex, err
}

// treeOf returns the tree of a tree or commit given in hex.
func (s *session) treeOf(ctx context.Context, hex string) (string, error) {
	if err := s.repo.checkHex(hex); err != nil {
		return "", err
	}
	return s.line(ctx, "rev-parse", "--verify", hex+"^{tree}")
}

// resolveTrees replaces the names of two trees or commits with their trees.
func (s *session) resolveTrees(ctx context.Context, a, b *string) (err error) {
	if *a, err = s.treeOf(ctx, *a); err == nil {
		*b, err = s.treeOf(ctx, *b)
	}
	return err
}
