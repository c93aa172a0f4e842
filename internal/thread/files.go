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

// A Session is what a vendor's session had more after a step: a node of type session. With the bytes of those
// before, its files can be put together elsewhere.
type Session struct {
	Agent string   `json:"agent"` // whose session it is
	ID    string   `json:"id"`    // the vendor's
	Prev  dag.Hash `json:"prev"`  // the session node before, or zero
	Bytes dag.Hash `json:"bytes"` // blob: a tar, see docs/format.md
}

// Session returns the session kept under h.
func (r *Reader) Session(ctx context.Context, h dag.Hash) (*Session, error) {
	return decodeAs[Session](ctx, r, h, dag.TypeSession)
}
