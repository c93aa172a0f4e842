package web

import (
	"sync"

	"github.com/plait-run/plait/internal/view"
)

// A changedFile is a file of a patch.
type changedFile struct {
	view.FilePatch
	By []string // agents that changed it
}

// splitPatch splits a patch into files.
func splitPatch(patch string) []changedFile {
	var out []changedFile
	for _, f := range view.SplitPatch(patch) {
		out = append(out, changedFile{FilePatch: f})
	}
	return out
}

// A patchCache caches patches between git trees, which never change.
type patchCache struct {
	mu   sync.Mutex
	kept map[[2]string]string
	size int
}

// maxCached limits the cache, in bytes.
const maxCached = 16 << 20

func (c *patchCache) get(from, to string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, ok := c.kept[[2]string{from, to}]
	return text, ok
}

func (c *patchCache) put(from, to, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += len(text); c.kept == nil || c.size > maxCached {
		c.kept, c.size = map[[2]string]string{}, len(text)
	}
	if len(text) <= maxCached {
		c.kept[[2]string{from, to}] = text
	}
}
