package taskdir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// A drawing is what the parts of a task directory read and where they draw, once.
type drawing struct {
	store  store.Store
	nodes  *thread.Reader
	record view.TaskRecord
	root   *os.Root
	all    bool // not only what has changed since the last one
}

// drawnMarks are the first bytes of files that Plait draws next to people's files.
var drawnMarks = map[string]string{
	".md":   "---\n# Drawn by Plait from its record; what is changed here is overwritten.\n",
	".json": "{\n  \"schema\": \"plait.",
}

// drawOwn draws a file in a place where people keep files too. A file of that name that is not
// Plait's is moved aside, to NAME.kept.EXT.
func drawOwn(root *os.Root, name string, data []byte) error {
	f, _, err := openPlain(root, name, os.O_RDONLY)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotPlain) {
			err = nil
			if info, look := root.Lstat(name); look == nil && info.IsDir() {
				err = aside(root, name)
			}
		}
		if err != nil {
			return err
		}
		return replace(root, name, data)
	}
	mark := drawnMarks[path.Ext(name)]
	head, err := io.ReadAll(io.LimitReader(f, int64(len(mark))))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("draw %s: %w", name, err)
	}
	if !bytes.HasPrefix(head, []byte(mark)) {
		if err := aside(root, name); err != nil {
			return err
		}
	}
	return draw(root, name, data)
}

// maxAside limits how many files of one name are moved aside.
const maxAside = 100

// aside renames a file to a free name.
func aside(root *os.Root, name string) error {
	ext := path.Ext(name)
	base := strings.TrimSuffix(name, ext) + ".kept"
	for n := 1; n <= maxAside; n++ {
		to := base + ext
		if n > 1 {
			to = fmt.Sprintf("%s-%d%s", base, n, ext)
		}
		if _, err := root.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := root.Rename(name, to); err != nil {
			return fmt.Errorf("move %s aside: %w", name, err)
		}
		return nil
	}
	return fmt.Errorf("%s was not written by Plait, and too many copies are already kept; move it away", name)
}
