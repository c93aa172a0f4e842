package git

import (
	"context"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/sys/text"
)

// maxCommit limits the size of a commit object that is kept, in bytes.
const maxCommit = 1 << 20

// ErrNoCommit is the error for a name that means no commit of the repository.
var ErrNoCommit = errors.New("the repository has no such commit")

// KeepCommit keeps a commit, given by its id or the beginning of it, under the ref that ref returns for its id. It
// returns the id and the commit object.
func (r *Repo) KeepCommit(ctx context.Context, name string, ref func(id string) string) (id string, object []byte,
	err error) {
	fail := func(err error) (string, []byte, error) { return "", nil, fmt.Errorf("keep commit %s: %w", name, err) }
	if !text.IsHex(name, 7, 64) {
		return fail(ErrNoCommit)
	}
	s, err := r.begin(noTree)
	if err != nil {
		return fail(err)
	}
	defer s.end()
	if id, err = s.resolveRev(ctx, name+"^{commit}"); err == nil && id == "" {
		err = ErrNoCommit
	}
	if err != nil {
		return fail(err)
	}
	if err := checkRef(ref(id)); err != nil {
		return fail(err)
	}
	if object, _, err = s.runWithin(ctx, maxCommit, nil, "cat-file", "commit", id); err != nil {
		return fail(err)
	}
	if err := s.setRef(ctx, ref(id), id); err != nil {
		return fail(err)
	}
	return id, object, nil
}
