package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// maxUpload is how many bytes a bundle of a person's files may have, unless an Upload overrides it.
const maxUpload = 1 << 30

// ErrUpload reports that files cannot be uploaded as they are, and what a person can do about it.
var ErrUpload = errors.New("cannot upload the files")

// An Upload describes an upload of a thread's working tree, including uncommitted changes.
type Upload struct {
	Row    store.Thread // as it is on this machine; its tree is in a git repository
	Remote string       // workers fetch from it too: only what it lacks is uploaded; "": all files
	Most   int64        // bytes; zero: maxUpload
}

// An Uploaded is the result of an Upload. The directory is not needed after that.
type Uploaded struct {
	Files   dag.Hash       // the tree node
	Objects []store.Object // to be committed with the row that names it
	Inside  string         // the directory's path in the repository, "" for the top
	Bytes   int64          // of the bundle
	Onto    string         // the commit of the remote that it builds on, "" for none
	Notes   []string       // what workers will lack
}

// Upload puts a person's files into the record, except ignored ones. stage keeps bytes as a blob.
func (t *Trees) Upload(ctx context.Context, u Upload,
	stage func(io.Reader) (dag.Hash, error)) (up Uploaded, err error) {
	dir := Of(u.Row)
	fail := func(err error) (Uploaded, error) { return Uploaded{}, fmt.Errorf("upload %s: %w", dir, err) }
	repo, err := repository(ctx, u.Row)
	if errors.Is(err, git.ErrNone) {
		return fail(fmt.Errorf("%w: it is not in a Git repository (git init makes one): %w", ErrUpload, err))
	}
	if err != nil {
		return fail(err)
	}
	if err := repo.Whole(ctx); err != nil {
		return fail(fmt.Errorf("%w: %w", ErrUpload, err))
	}
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		up.Inside, err = filepath.Rel(repo.Root(), real)
	}
	if err == nil && !filepath.IsLocal(up.Inside) { // an agent may have made a link there
		err = fmt.Errorf("%w: it is outside of its repository", git.ErrRefused)
	}
	if err != nil {
		return fail(err)
	}
	if up.Inside = filepath.ToSlash(up.Inside); up.Inside == "." {
		up.Inside = ""
	}
	defer func() { // the record has them now
		if dropErr := repo.DropRefs(context.WithoutCancel(ctx), ref(u.Row.ID, "")); err == nil && dropErr != nil {
			up, err = fail(dropErr)
		}
	}()
	tree, err := repo.Snapshot(ctx, ref(u.Row.ID, "uploaded"))
	if err != nil {
		return fail(err)
	}
	if u.Remote != "" {
		if up.Onto, err = repo.Published(ctx, u.Remote); err != nil {
			return fail(err)
		}
	}
	if up.Notes, err = notes(ctx, repo, tree); err != nil {
		return fail(err)
	}
	b, file, err := repo.Bundle(ctx, git.Packing{Ref: ref(u.Row.ID, "files"), Tree: tree, Onto: up.Onto,
		Bounded: true})
	if err != nil {
		return fail(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fail(err)
	}
	most := u.Most
	if most == 0 {
		most = maxUpload
	}
	if up.Bytes = info.Size(); up.Bytes > most {
		return fail(fmt.Errorf("%w: the packed size is %d bytes, the limit is %d; list what workers do not need in "+
			".gitignore, or give the workers a remote to fetch from", ErrUpload, up.Bytes, most))
	}
	blob, err := stage(file)
	if err != nil {
		return fail(err)
	}
	obj, err := thread.NewNode(dag.TypeTree, thread.Files{Tree: b.Tree, Commit: b.Commit, Bundle: blob})
	if err != nil {
		return fail(err)
	}
	up.Files, up.Objects = obj.Hash, []store.Object{obj}
	return up, nil
}

// notes returns what workers will lack of a tree.
func notes(ctx context.Context, repo *git.Repo, tree string) (all []string, err error) {
	e, err := repo.Elsewhere(ctx, tree)
	if err != nil {
		return nil, err
	}
	if len(e.Submodules) > 0 {
		all = append(all, "submodules are empty directories on a worker, unless worktree.setup fills them: "+
			strings.Join(validNames(e.Submodules), ", "))
	}
	if len(e.LFS) > 0 {
		all = append(all, "unchanged files of Git LFS are pointers on a worker, unless worktree.setup fetches them; see "+
			strings.Join(validNames(e.LFS), ", "))
	}
	return all, nil
}
