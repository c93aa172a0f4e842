package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// MaxPatch is the maximum length of a patch, in bytes.
const MaxPatch = 32 << 20

// ErrTooLarge reports that a patch is longer than MaxPatch.
var ErrTooLarge = errors.New("patch too large")

// Diff returns the patch from one tree or commit to another, including binary
// files, in a form that git apply accepts. It ignores the work tree's attributes
// for binary and text: nothing is hidden from the patch. A patch that is too
// large is truncated and returned with an error that matches ErrTooLarge.
func (r *Repo) Diff(ctx context.Context, from, to string) (patch []byte, err error) {
	patch, err = r.diff(ctx, MaxPatch, from, to)
	if err != nil {
		return patch, fmt.Errorf("diff %s %s: %w", from, to, err)
	}
	return patch, nil
}

func (r *Repo) diff(ctx context.Context, limit int64, from, to string) ([]byte, error) {
	s, err := r.begin(noTree)
	if err != nil {
		return nil, err
	}
	defer s.end()
	if err := errors.Join(r.checkHex(from), r.checkHex(to)); err != nil {
		return nil, err
	}
	patch, _, err := s.runWithin(ctx, limit, nil, "diff-tree", "-r", "-p", "--binary", "--full-index", "-M",
		"--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", "--ignore-submodules=none",
		"--src-prefix=a/", "--dst-prefix=b/", from, to)
	if errors.Is(err, errLong) {
		return patch, fmt.Errorf("%w: over %d bytes", ErrTooLarge, limit)
	}
	if err != nil {
		return nil, err
	}
	return patch, nil
}

// Changed returns the paths that differ between two trees or commits, sorted: relative to the
// root, with slashes, of any bytes but NUL. A renamed file counts as one deleted and one added.
func (r *Repo) Changed(ctx context.Context, from, to string) ([]string, error) {
	list, err := r.changed(ctx, from, to)
	if err != nil {
		return nil, fmt.Errorf("compare %s %s: %w", from, to, err)
	}
	return list, nil
}

func (r *Repo) changed(ctx context.Context, from, to string) ([]string, error) {
	s, err := r.begin(noTree)
	if err != nil {
		return nil, err
	}
	defer s.end()
	if err := errors.Join(r.checkHex(from), r.checkHex(to)); err != nil {
		return nil, err
	}
	out, err := s.run(ctx, nil, "diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff",
		"--ignore-submodules=none", from, to)
	if err != nil {
		return nil, err
	}
	return slices.Collect(records(out)), nil
}

// MaxFile is the maximum length of a file that [Repo.File] returns, in bytes.
const MaxFile = 4 << 20

// File returns a file of a tree or commit. The path is relative to the root, with slashes. A file that is longer than
// MaxFile is refused with an error that matches ErrTooLarge.
func (r *Repo) File(ctx context.Context, tree, path string) ([]byte, error) {
	data, err := r.file(ctx, tree, path)
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", path, tree, err)
	}
	return data, nil
}

func (r *Repo) file(ctx context.Context, tree, path string) ([]byte, error) {
	s, err := r.begin(noTree)
	if err != nil {
		return nil, err
	}
	defer s.end()
	if err := r.checkHex(tree); err != nil {
		return nil, err
	}
	if !fs.ValidPath(path) || strings.ContainsRune(path, 0) {
		return nil, fs.ErrInvalid
	}
	data, _, err := s.runWithin(ctx, MaxFile, nil, "cat-file", "blob", tree+":"+path)
	if errors.Is(err, errLong) {
		return nil, fmt.Errorf("%w: over %d bytes", ErrTooLarge, MaxFile)
	}
	return data, err
}
