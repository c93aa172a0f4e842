package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/sys/proc"
)

// A Chain is a ref whose commits have files, one commit for each time that they were kept. If it has a remote, it is
// what the remote has under the ref, and is pushed there.
type Chain struct {
	Repo   *Repo
	Ref    string // below refs/plait/
	Remote string // the name of a remote of the repository; "": none
}

// maxRemote is the longest that one conversation with the remote of a chain may take.
const maxRemote = 20 * time.Second

// Files returns those of the newest commit's files that are named. The error matches fs.ErrNotExist if there is no
// commit, or no such file.
func (c Chain) Files(ctx context.Context, names ...string) ([][]byte, error) {
	files, err := c.files(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c, err)
	}
	return files, nil
}

// String returns the chain for people.
func (c Chain) String() string { return strings.TrimSpace(c.Ref + " " + c.Remote) }

func (c Chain) files(ctx context.Context, names []string) ([][]byte, error) {
	s, err := c.begin()
	if err != nil {
		return nil, err
	}
	defer s.end()
	tip, err := c.tip(ctx, s)
	if err != nil {
		return nil, err
	}
	if tip == "" {
		return nil, fs.ErrNotExist
	}
	var files [][]byte
	for _, name := range names {
		id, err := s.resolveRev(ctx, tip+":"+name)
		if err == nil && id == "" {
			err = fs.ErrNotExist
		}
		if err != nil {
			return nil, err
		}
		data, _, err := s.runWithin(ctx, maxCommit, nil, "cat-file", "blob", id)
		if err != nil {
			return nil, err
		}
		files = append(files, data)
	}
	return files, nil
}

// Add adds a commit with files to the chain. Nothing is pushed if the remote has a commit that is not in the chain.
func (c Chain) Add(ctx context.Context, files map[string][]byte, message string, at time.Time) error {
	if err := c.add(ctx, files, message, at); err != nil {
		return fmt.Errorf("add to %s: %w", c, err)
	}
	return nil
}

func (c Chain) add(ctx context.Context, files map[string][]byte, message string, at time.Time) error {
	s, err := c.begin()
	if err != nil {
		return err
	}
	defer s.end()
	old, err := c.tip(ctx, s)
	if err != nil {
		return err
	}
	var list bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		id, err := s.run(ctx, bytes.NewReader(files[name]), "hash-object", "-w", "--stdin")
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "100644 blob %s\t%s\n", bytes.TrimSpace(id), name)
	}
	tree, err := s.run(ctx, &list, "mktree")
	if err != nil {
		return err
	}
	commit, err := s.commitOn(ctx, strings.TrimSpace(string(tree)), old, message, at)
	if err != nil {
		return err
	}
	if c.Remote == "" {
		return s.updateRef(ctx, c.Ref, c.Ref, commit, cmp.Or(old, strings.Repeat("0", c.Repo.hexLen())))
	}
	url, err := c.url()
	if err == nil {
		err = s.talk(ctx, "push", "--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--", url,
			commit+":"+c.Ref)
	}
	return err
}

func (c Chain) begin() (*session, error) {
	if err := checkRef(c.Ref); err != nil {
		return nil, err
	}
	if err := c.Repo.refsInside(c.Ref); err != nil {
		return nil, err
	}
	return c.Repo.begin(noTree)
}

// tip returns the newest commit, "" if there is none. What a remote has is fetched.
func (c Chain) tip(ctx context.Context, s *session) (string, error) {
	if c.Remote == "" {
		return s.resolveRev(ctx, c.Ref+"^{commit}")
	}
	url, err := c.url()
	if err != nil {
		return "", err
	}
	kept := c.Ref + "-" + c.Remote
	if err := checkRef(kept); err != nil {
		return "", err
	}
	if err := c.Repo.refsInside(kept); err != nil {
		return "", err
	}
	err = s.talk(ctx, "fetch", "--quiet", "--no-auto-maintenance", "--no-write-fetch-head", "--no-recurse-submodules",
		"--no-tags", "--force", "--", url, "+"+c.Ref+":"+kept)
	var f *failure
	if errors.As(err, &f) && strings.Contains(f.stderr, "couldn't find remote ref") {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return s.resolveRev(ctx, kept+"^{commit}")
}

// url returns the address of the remote, as the repository has it.
func (c Chain) url() (string, error) {
	return c.Repo.Remote(c.Remote)
}

// talk runs a git that contacts another repository, on the private git directory of s: with the configuration, keys
// and helpers of the user, and none of the repository's.
func (s *session) talk(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, maxRemote)
	defer cancel()
	return talk(ctx, s.repo.git, s.dir, maxRemote, args)
}

// talk runs a git that contacts another repository, as the user of this process would.
func talk(ctx context.Context, git, dir string, wall time.Duration, args []string) error {
	_, err := asUser(ctx, git, dir, wall, fetchEnvironment(os.Environ()), nil, args)
	return err
}

// asUser runs git as the user of this process would, with their configuration, keys and helpers, on a git directory
// that names nothing to run. It returns stdout.
func asUser(ctx context.Context, git, dir string, wall time.Duration, env []string, stdin io.Reader, args []string) (
	[]byte, error) {
	var out, errs bytes.Buffer
	res, err := proc.Run(ctx, proc.Config{
		Path: git, Dir: dir, Stdin: stdin, Stdout: &out, Stderr: &errs, MaxBytes: maxOutput, Wall: wall, Grace: stopGrace,
		Args: append([]string{
			"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
			"-c", "fetch.fsckObjects=true", "-c", "protocol.ext.allow=never", "-c", "protocol.file.allow=always",
			"-c", "fetch.recurseSubmodules=false", "-c", "fetch.bundleURI=", "--git-dir=" + dir}, args...),
		Env:     env,
		Signals: []syscall.Signal{syscall.SIGTERM},
	})
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case res.Reason != "":
		return nil, fmt.Errorf("git was stopped: %s", res.Reason)
	case res.Exit != 0:
		said := errs.Bytes()[:min(errs.Len(), maxComplaint)]
		return nil, &failure{verb: args[0], exit: res.Exit,
			stderr: withoutPasswords(strings.ToValidUTF8(strings.TrimSpace(string(said)), "\uFFFD"))}
	}
	return out.Bytes(), nil
}
