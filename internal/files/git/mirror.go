package git

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Mirror is a bare repository that follows another one, the remote. It is made here, and only Fetch
// writes to it.
type Mirror struct {
	dir string
}

// maxFetch is the longest that one fetch may take.
const maxFetch = 30 * time.Minute

// OpenMirror returns the mirror in dir, which must be absolute. It creates the mirror if there is none.
func OpenMirror(ctx context.Context, dir, format string) (*Mirror, error) {
	if err := initialize(dir, format, "ref: refs/heads/plait/none", ""); err != nil {
		return nil, fmt.Errorf("make mirror %s: %w", dir, err)
	}
	return &Mirror{dir}, nil
}

// Objects returns the directory of the mirror's objects, which repositories made by Init borrow.
func (m *Mirror) Objects() string { return filepath.Join(m.dir, "objects") }

// Fetch fetches the branches and tags of the remote, which is a URL (https, http, ssh, git or file), scp's
// HOST:PATH or an absolute path. Git runs with the configuration, keys and helpers of the user who runs this process:
// nothing in the mirror is run, and what arrives must pass git's own checks. What the remote has deleted stays:
// other repositories borrow it.
func (m *Mirror) Fetch(ctx context.Context, remote string) error {
	if err := checkRemote(remote); err != nil {
		return err
	}
	if err := m.fetch(ctx, remote); err != nil {
		return fmt.Errorf("fetch %s: %w", shownRemote(remote), err)
	}
	return nil
}

func (m *Mirror) fetch(ctx context.Context, remote string) error {
	git, err := program(m.dir)
	if err != nil {
		return err
	}
	return talk(ctx, git, m.dir, maxFetch, []string{"fetch", "--quiet", "--no-auto-maintenance", "--no-write-fetch-head",
		"--no-recurse-submodules", "--force", "--no-tags", "--", remote, "+refs/heads/*:refs/heads/*",
		"+refs/tags/*:refs/tags/*"})
}

// fetchEnvironment returns the environment own, without what points git elsewhere, and with prompts disabled.
func fetchEnvironment(own []string) []string {
	env := slices.DeleteFunc(slices.Clone(own), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		return strings.HasPrefix(key, "GIT_") && key != "GIT_SSH_COMMAND" && key != "GIT_SSH" ||
			strings.HasPrefix(key, "PLAIT_")
	})
	return append(env, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", "LC_ALL=C")
}

// password matches a URL with a password in the output of git.
var password = regexp.MustCompile(`(://[^/@\s:]*):[^/@\s]*@`)

func withoutPasswords(s string) string { return password.ReplaceAllString(s, "$1:***@") }

func shownRemote(remote string) string { return withoutPasswords(remote) }

// checkRemote refuses a remote that git would take for an option or for a program to run.
func checkRemote(remote string) error {
	refuse := fmt.Errorf("remote %q: want a URL, HOST:PATH or an absolute path", shownRemote(remote))
	if remote == "" || remote[0] == '-' || strings.ContainsAny(remote, "\x00\n") || strings.Contains(remote, "::") {
		return refuse
	}
	if u, err := url.Parse(remote); err == nil && strings.Contains(remote, "://") {
		if !slices.Contains([]string{"https", "http", "ssh", "git", "file"}, u.Scheme) || strings.HasPrefix(u.Host, "-") {
			return refuse
		}
		return nil
	}
	if host, _, ok := strings.Cut(remote, ":"); filepath.IsAbs(remote) || ok && host != "" &&
		!strings.Contains(host, "/") {
		return nil
	}
	return refuse
}

// Init makes dir, which must be absolute, the top of a bare repository from which worktrees are made.
// It borrows the objects of a mirror, or none if borrowed is "". An existing repository is left alone.
func Init(dir, format, borrowed string) error {
	if err := initialize(filepath.Join(dir, ".git"), format, "ref: refs/heads/plait/none", borrowed); err != nil {
		return fmt.Errorf("make repository %s: %w", dir, err)
	}
	return nil
}

// initialize creates a git directory atomically, unless it exists. One that a power cut emptied is made again.
func initialize(gitdir, format, head, borrowed string) error {
	emptied := isEmpty(gitdir, "HEAD") || isEmpty(gitdir, "config")
	if exists(gitdir, "HEAD") && !emptied {
		return nil
	}
	if !filepath.IsAbs(gitdir) {
		return errors.New("not an absolute path")
	}
	if format = cmp.Or(format, "sha1"); !slices.Contains(extensions["extensions.objectformat"], format) {
		return fmt.Errorf("object format %q is not known", format)
	}
	if strings.ContainsAny(borrowed, "\n\"") {
		return fmt.Errorf("objects of %q cannot be borrowed", borrowed)
	}
	if err := os.MkdirAll(filepath.Dir(gitdir), 0o755); err != nil {
		return err
	}
	half := filepath.Join(filepath.Dir(gitdir), ".plait-"+strings.ToLower(rand.Text()[:12]))
	defer os.RemoveAll(half)
	for _, dir := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags", "info"} {
		if err := os.MkdirAll(filepath.Join(half, dir), 0o755); err != nil {
			return err
		}
	}
	config := "[core]\n\trepositoryformatversion = 1\n\tbare = true\n\tlogallrefupdates = false\n" +
		"[extensions]\n\tobjectformat = " + format + "\n"
	texts := map[string]string{"HEAD": head, "config": config}
	if borrowed != "" {
		texts["objects/info/alternates"] = borrowed
	}
	for name, text := range texts {
		if err := writeSynced(filepath.Join(half, name), text+"\n"); err != nil {
			return err
		}
	}
	for _, dir := range []string{"objects/info", "objects", "refs", "."} {
		if err := syncFile(filepath.Join(half, dir)); err != nil {
			return err
		}
	}
	if emptied {
		if err := RemoveAll(gitdir); err != nil {
			return err
		}
	}
	if err := os.Rename(half, gitdir); err != nil && !errors.Is(err, fs.ErrExist) && !exists(gitdir, "HEAD") {
		return err
	}
	return syncFile(filepath.Dir(gitdir))
}

func isEmpty(dir, name string) bool {
	info, err := os.Lstat(filepath.Join(dir, name))
	return err == nil && info.Size() == 0
}

// Has reports whether the repository has the commit or tree, its own or borrowed.
func (r *Repo) Has(ctx context.Context, hex string) (bool, error) {
	if err := r.checkHex(hex); err != nil {
		return false, err
	}
	s, err := r.begin(noTree)
	if err != nil {
		return false, err
	}
	defer s.end()
	tree, err := s.resolveRev(ctx, hex+"^{tree}")
	var f *failure
	if errors.As(err, &f) {
		return false, nil // older gits fail on an object that is missing
	}
	return tree != "", err
}

// Format returns the format of the repository's object names: sha1 or sha256.
func (r *Repo) Format() string { return r.format }

// Head returns the commit that HEAD names, or "" if there is none.
func (r *Repo) Head(ctx context.Context) (string, error) {
	s, err := r.begin(noTree)
	if err != nil {
		return "", err
	}
	defer s.end()
	return s.head(ctx)
}

// SetHead sets HEAD, on which worktrees are based, to the commit. The repository must be one that Init made and
// whose HEAD is not set yet.
func (r *Repo) SetHead(ctx context.Context, commit string) error {
	fail := func(err error) error { return fmt.Errorf("set HEAD of %s: %w", r.root, err) }
	if err := r.checkHex(commit); err != nil {
		return fail(err)
	}
	if ok, err := r.Has(ctx, commit); err != nil || !ok {
		return fail(cmp.Or(err, fmt.Errorf("commit %s is not there", commit)))
	}
	path := filepath.Join(r.gitdir, "HEAD")
	now, err := readSmall(path)
	if err != nil || strings.TrimSpace(now) == commit {
		return err
	}
	if r.linked || strings.TrimSpace(now) != "ref: refs/heads/plait/none" {
		return fail(fmt.Errorf("%w: HEAD is already set", ErrRefused))
	}
	if err := writeSynced(path+".new", commit+"\n"); err != nil {
		return fail(err)
	}
	return os.Rename(path+".new", path)
}

// Name returns the name of the repository: the last part of the URL of the given remote, or else of its directory.
func (r *Repo) Name(remote string) string {
	name := filepath.Base(r.root)
	if address, ok := lastValue(r.shared, "remote."+strings.ToLower(remote)+".url"); ok {
		last := strings.TrimSuffix(strings.TrimRight(address, "/"), ".git")
		if last = last[strings.LastIndexAny(last, "/:")+1:]; last != "" {
			name = last
		}
	}
	return name
}
