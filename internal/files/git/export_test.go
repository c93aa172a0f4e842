package git

import "context"

// CopyIndex lets a test stage what cannot be produced on demand: two writes in the
// same instant.
var CopyIndex = copyIndex

// Fresh returns the name of the file that a crash would leave.
var Fresh = stagedName

// ApplyUntil is Apply with a crash before move n; meanwhile is called after planning,
// before the first move. It returns the number of moves in the plan.
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

// BoundFiles limits how large the files of a bundle may be, until undo is called.
func BoundFiles(bytes int64) (undo func()) {
	old := maxFiles
	maxFiles = bytes
	return func() { maxFiles = old }
}
