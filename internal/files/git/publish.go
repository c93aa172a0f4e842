package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Revision is a commit of a branch.
type Revision struct {
	ID      string
	Parent  string // the first one, or ""
	Tree    string
	Message string
}

// A Draft is a commit that is not made yet.
type Draft struct {
	Branch  string // below plait/
	Parent  string // the commit that the branch points at, or, if there is no branch, the one that it begins at; or ""
	Tree    string // without .plait/, of which the parent's is kept
	Message string
}

// maxHistory limits how many commits of a branch are read.
const maxHistory = 500

// Remote returns the address of a remote, as the repository has it.
func (r *Repo) Remote(name string) (string, error) {
	url, ok := lastValue(r.shared, "remote."+strings.ToLower(name)+".url")
	if !ok {
		return "", fmt.Errorf("%s has no remote %s", r.root, name)
	}
	return url, checkRemote(url)
}

// History returns the commits of a branch below plait/ along first parents, newest first, or none if there is no
// branch.
func (r *Repo) History(ctx context.Context, branch string) ([]Revision, error) {
	list, err := r.history(ctx, branch)
	if err != nil {
		return nil, fmt.Errorf("read branch %s: %w", branch, err)
	}
	return list, nil
}

func (r *Repo) history(ctx context.Context, branch string) ([]Revision, error) {
	s, err := r.begin(noTree)
	if err != nil {
		return nil, err
	}
	defer s.end()
	if err := s.checkBranch(ctx, branch); err != nil {
		return nil, err
	}
	tip, err := s.resolveRev(ctx, heads+branch+"^{commit}")
	if err != nil || tip == "" {
		return nil, err
	}
	out, err := s.run(ctx, nil, "log", "-z", "--first-parent", fmt.Sprint("-n", maxHistory),
		"--format=%H %T %P%n%B", tip)
	if err != nil {
		return nil, err
	}
	var list []Revision
	for rec := range records(out) {
		names, message, _ := strings.Cut(rec, "\n")
		f := append(strings.Fields(names), "")
		if len(f) < 3 {
			return nil, fmt.Errorf("git log: cannot read %q", names)
		}
		list = append(list, Revision{ID: f[0], Tree: f[1], Parent: f[2], Message: message})
	}
	return list, nil
}

// Plain returns the tree of a commit without .plait/.
func (r *Repo) Plain(ctx context.Context, commit string) (string, error) {
	s, err := r.begin(noTree)
	if err != nil {
		return "", err
	}
	defer s.end()
	return s.plainTree(ctx, commit)
}

// BaseOf returns the commit that HEAD named when one of the snapshots below a prefix was taken whose tree is the one
// given; "" if there is no such snapshot.
func (r *Repo) BaseOf(ctx context.Context, prefix, tree string) (string, error) {
	refs, err := r.Refs(ctx, prefix)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(refs, func(ref Ref) bool { return ref.Tree == tree })
	if i < 0 {
		return "", nil
	}
	s, err := r.begin(noTree)
	if err != nil {
		return "", err
	}
	defer s.end()
	return s.headAsOf(ctx, refs[i].Name)
}

// CommitAs makes a commit as the user's own git does: in their name, and signed if they sign commits. It then moves the
// branch to it, or makes the branch. No hook runs, and no index, HEAD or file changes. The error matches ErrRefused if
// the branch does not point at the parent, or if a work tree has it checked out.
func (r *Repo) CommitAs(ctx context.Context, d Draft) (id string, err error) {
	id, err = r.commitAs(ctx, d)
	if err != nil {
		return "", fmt.Errorf("commit to %s: %w", d.Branch, err)
	}
	return id, nil
}

func (r *Repo) commitAs(ctx context.Context, d Draft) (string, error) {
	s, err := r.begin(noTree)
	if err != nil {
		return "", err
	}
	defer s.end()
	if err := s.checkBranch(ctx, d.Branch); err != nil {
		return "", err
	}
	tree, err := s.treeOf(ctx, d.Tree)
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", "-F", "-"}
	if d.Parent != "" {
		if err := r.checkHex(d.Parent); err != nil {
			return "", err
		}
		if tree, err = s.addPlaitDir(ctx, tree, d.Parent); err != nil {
			return "", err
		}
		args = append(args, "-p", d.Parent)
	}
	env, signs, err := r.userEnvironment(ctx)
	if err != nil {
		return "", err
	}
	if signs {
		args = append(args, "-S")
	}
	out, err := asUser(ctx, r.git, s.dir, Patience, env, strings.NewReader(d.Message), append(args, tree))
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(out))
	return id, s.moveBranch(ctx, d.Branch, id)
}

// moveBranch makes a branch, or moves it forward to a commit that has its own among its ancestors.
func (s *session) moveBranch(ctx context.Context, branch, commit string) error {
	ref := heads + branch
	old, err := s.resolveRev(ctx, ref+"^{commit}")
	if err != nil || old == commit {
		return err
	}
	if old == "" {
		old = strings.Repeat("0", s.repo.hexLen())
	} else if ok, err := s.isAncestor(ctx, old, commit); err != nil || !ok {
		return cmp.Or(err, fmt.Errorf("%w: %s has commits that are not in %s", ErrRefused, branch, commit))
	}
	if s.repo.isCheckedOut(ref) {
		return fmt.Errorf("%w: %s is checked out", ErrRefused, branch)
	}
	if err := s.repo.refsInside(ref); err != nil {
		return err
	}
	if err := s.updateRef(ctx, ref, ref, commit, old); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return nil
}

func (s *session) isAncestor(ctx context.Context, old, commit string) (bool, error) {
	_, err := s.run(ctx, nil, "merge-base", "--is-ancestor", old, commit)
	var f *failure
	if errors.As(err, &f) && f.exit == 1 {
		return false, nil
	}
	return err == nil, err
}

// Settings with which the user's git commits and pushes. Those of the second kind name programs, and a repository does
// not say what runs.
var (
	identity = []string{"user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email",
		"user.signingkey", "gpg.format"}
	programs = []string{"core.sshcommand", "gpg.program", "gpg.openpgp.program", "gpg.x509.program", "gpg.ssh.program",
		"gpg.ssh.defaultkeycommand"}
)

// userEnvironment returns the environment of a git that does something for the user in a private git directory: their
// own, with the name that they chose there, and with what their settings say for the directory of the repository, which
// conditional includes may name. signs reports whether they sign commits.
func (r *Repo) userEnvironment(ctx context.Context) (env []string, signs bool, err error) {
	env = fetchEnvironment(os.Environ())
	out, err := asUser(ctx, r.git, r.gitdir, Patience, env, nil,
		[]string{"config", "--null", "--show-scope", "--includes", "--list"})
	if err != nil {
		return nil, false, err
	}
	n, scope := 0, ""
	for i, rec := range strings.Split(string(out), "\x00") {
		if i%2 == 0 {
			scope = rec
			continue
		}
		kv := parseSettings([]byte(rec))[0]
		if kv[0] == "commit.gpgsign" {
			signs = isTrue(kv[1])
		}
		if slices.Contains(identity, kv[0]) || slices.Contains(programs, kv[0]) && (scope == "global" || scope == "system") {
			env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, kv[1]))
			n++
		}
	}
	env = append(env, fmt.Sprint("GIT_CONFIG_COUNT=", n))
	for _, name := range []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env, signs, nil
}

func isTrue(value string) bool {
	return slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(value))
}

// OnRemote reports whether a remote has a commit, as far as is known here, and returns the branch of the remote that
// the one which is checked out follows, if it has that commit.
func (r *Repo) OnRemote(ctx context.Context, remote, commit string) (has bool, upstream string, err error) {
	s, err := r.begin(noTree)
	if err != nil {
		return false, "", fmt.Errorf("look for commit %s on %s: %w", commit, remote, err)
	}
	defer s.end()
	of := "refs/remotes/" + remote + "/"
	out, err := s.run(ctx, nil, "for-each-ref", "--contains", commit, "--format=%(refname)", of)
	var head string
	if err == nil {
		head, err = readSmall(filepath.Join(r.gitdir, "HEAD"))
	}
	if err != nil {
		return false, "", fmt.Errorf("look for commit %s on %s: %w", commit, remote, err)
	}
	list := strings.Fields(string(out))
	follows := "branch." + strings.ToLower(strings.TrimPrefix(strings.TrimSpace(head), "ref: "+heads))
	on, _ := lastValue(r.shared, follows+".remote")
	ref, _ := lastValue(r.shared, follows+".merge")
	if name, ok := strings.CutPrefix(ref, heads); ok && on == remote && slices.Contains(list, of+name) {
		upstream = name
	}
	return len(list) > 0, upstream, nil
}

// Push pushes a branch below plait/ to a remote, as the user's own git does. Nothing that the remote has is
// overwritten.
func (r *Repo) Push(ctx context.Context, remote, branch string) error {
	return r.exchange(ctx, "push", remote, branch, func(s *session, url string) error {
		return r.talk(ctx, s.dir, "push", "--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--", url,
			heads+branch+":"+heads+branch)
	})
}

// Follow moves a branch below plait/ forward to what a remote has of it. The error matches ErrRefused if each has
// commits that the other lacks.
func (r *Repo) Follow(ctx context.Context, remote, branch string) error {
	return r.exchange(ctx, "follow", remote, branch, func(s *session, url string) error {
		kept := refBase + "forge/" + strings.TrimPrefix(branch, ownHeads)
		if err := cmp.Or(checkRef(kept), r.refsInside(kept)); err != nil {
			return err
		}
		err := r.talk(ctx, s.dir, "fetch", "--quiet", "--no-auto-maintenance", "--no-write-fetch-head",
			"--no-recurse-submodules", "--no-tags", "--force", "--", url, "+"+heads+branch+":"+kept)
		if err != nil {
			return err
		}
		theirs, err := s.resolveRev(ctx, kept+"^{commit}")
		if err != nil {
			return err
		}
		ours, err := s.resolveRev(ctx, heads+branch+"^{commit}")
		if err != nil {
			return err
		}
		if ours != "" {
			if behind, err := s.isAncestor(ctx, theirs, ours); err != nil || behind {
				return err
			}
		}
		return s.moveBranch(ctx, branch, theirs)
	})
}

// talk runs a git in a private git directory that contacts another repository, as the user's own git would.
func (r *Repo) talk(ctx context.Context, dir string, args ...string) error {
	env, _, err := r.userEnvironment(ctx)
	if err == nil {
		_, err = asUser(ctx, r.git, dir, maxFetch, env, nil, args)
	}
	return err
}

// exchange does something with a branch and the address of a remote.
func (r *Repo) exchange(ctx context.Context, verb, remote, branch string, do func(s *session, url string) error) error {
	s, err := r.begin(noTree)
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, branch, err)
	}
	defer s.end()
	url, err := r.Remote(remote)
	if err == nil {
		err = s.checkBranch(ctx, branch)
	}
	if err == nil {
		err = do(s, url)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, branch, err)
	}
	return nil
}
