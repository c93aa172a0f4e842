package thread

import (
	"context"

	"github.com/plait-run/plait/internal/dag"
)

// Files are the files of a working tree as a step left them: a node of type tree. Its bundle is a git bundle
// of one commit, with what the commit of the base does not have; a chain of bases ends in a bundle that has
// everything.
type Files struct {
	Tree   string   `json:"tree"`   // git tree
	Commit string   `json:"commit"` // git commit of it, made for the bundle
	Bundle dag.Hash `json:"bundle"` // blob
	Base   dag.Hash `json:"base"`   // the tree node before, zero: the bundle has everything
}

// Files returns the files kept under h.
func (r *Reader) Files(ctx context.Context, h dag.Hash) (*Files, error) {
	return decodeAs[Files](ctx, r, h, dag.TypeTree)
}
