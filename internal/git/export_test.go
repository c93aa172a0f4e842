package git

import "context"

// CopyIndex is for the test of what cannot be had on demand: two writes in one
// instant.
var CopyIndex = copyIndex

// Fresh tells the tests what a crash would leave.
var Fresh = stagedName

// ApplyUntil is Apply with a crash before the move n, when others may have been
// made meanwhile. It returns how many moves there are.
func (r *Repo) ApplyUntil(ctx context.Context, from, to string, n int, meanwhile func()) (int, error) {
	p, err := r.plan(ctx, from, to)
	if err != nil {
		return 0, err
	}
	defer p.close()
	all := len(p.moves)
	p.moves = p.moves[:min(n, all)]
	meanwhile()
	return all, p.execute()
}

// BoundFiles sets how large the files of a bundle may be until its result is called.
func BoundFiles(bytes int64) (undo func()) {
	old := maxFiles
	maxFiles = bytes
	return func() { maxFiles = old }
}
