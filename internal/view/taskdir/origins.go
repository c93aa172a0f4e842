package taskdir

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
)

// OriginsDir has, in the directory of a task that was imported, what proves how it was where it came from: a file for
// each log, named by its ULID. So it is in exports of the task, too.
const (
	OriginsDir = "origins"
	OriginExt  = ".plait"
)

// KeepOrigin keeps a proof of a task, by the ULID of its log. The error matches fs.ErrExist if there is another by that
// log: it stays.
func (d Dir) KeepOrigin(log string, proof []byte) error {
	fail := func(err error) error { return fmt.Errorf("keep the proof of the log %s: %w", log, err) }
	root, err := d.open()
	if err != nil {
		return fail(err)
	}
	defer root.Close()
	if err := makeDir(root, OriginsDir); err != nil {
		return fail(err)
	}
	name := path.Join(OriginsDir, log+OriginExt)
	if kept, err := root.ReadFile(name); err == nil {
		if !bytes.Equal(kept, proof) {
			return fail(fs.ErrExist)
		}
		return nil
	}
	if err := replace(root, name, proof); err != nil {
		return fail(err)
	}
	return nil
}
