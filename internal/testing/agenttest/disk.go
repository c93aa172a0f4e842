package agenttest

import "errors"

// ErrDisk is the error of a [Disk].
var ErrDisk = errors.New("the disk is full")

// A Disk is a log whose writes fail, after as many as it has room for.
type Disk struct {
	Room   int
	Failed bool
}

func (d *Disk) Write(p []byte) (int, error) {
	if d.Room--; d.Room < 0 {
		d.Failed = true
		return 0, ErrDisk
	}
	return len(p), nil
}
