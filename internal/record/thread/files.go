package thread

import (
	"context"

	"github.com/plait-run/plait/internal/record/dag"
)

// Files are the files of a working tree after a step: a node of type tree. Its git bundle has one
// commit, without the objects that the commit of Base has; the last base of a chain has a
// complete bundle.
type Files struct {
	Tree   string   `json:"tree"`   // git tree
	Commit string   `json:"commit"` // git commit of the tree, made for the bundle
	Bundle dag.Hash `json:"bundle"` // blob
	Base   dag.Hash `json:"base"`   // the previous tree node, zero: the bundle is complete
}

// Files returns the files kept under h.
func (r *Reader) Files(ctx context.Context, h dag.Hash) (*Files, error) {
	return decodeAs[Files](ctx, r, h, dag.TypeTree)
}

// A Session is what a step added to a vendor's session: a node of type session. Together with the
// nodes before it, it restores the session's files on another machine.
type Session struct {
	Agent string   `json:"agent"` // whose session it is
	ID    string   `json:"id"`    // the vendor's
	Prev  dag.Hash `json:"prev"`  // the previous session node, or zero
	Bytes dag.Hash `json:"bytes"` // blob: a tar, see docs/format.md
}

// Session returns the session kept under h.
func (r *Reader) Session(ctx context.Context, h dag.Hash) (*Session, error) {
	return decodeAs[Session](ctx, r, h, dag.TypeSession)
}
