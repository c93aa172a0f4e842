package transfer

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

// TestLargeObjects checks that objects of a stranger take no more memory, and no more room, than there is for them.
func TestLargeObjects(t *testing.T) {
	defer func(was int) { maxRedacted = was }(maxRedacted)
	maxRedacted = maxNode + 1000
	large := []byte(strings.Repeat("x", maxNode+2000))
	const manifest = `{"schema":"plait.export/1","task":"T","objects":1}`
	for name, x := range map[string]struct {
		data []byte
		left int64
		want string
	}{
		"as large as others": {large, maxUnpacked, ""},
		"redacted":           {store.Redacted(large), maxUnpacked, "it was redacted, and has more than"},
		"beyond the limit":   {large, maxNode + 1500, "bytes unpacked"},
		"small, beyond it":   {[]byte("x"), int64(len(manifest)), "bytes unpacked"},
	} {
		h := dag.Sum(large)
		if len(x.data) == 1 {
			h = dag.Sum(x.data)
		}
		files := fstest.MapFS{
			"manifest.json":         {Data: []byte(manifest)},
			"objects":               {Mode: fs.ModeDir | 0o700},
			"objects/" + h.String(): {Data: x.data},
			"index/threads.json":    {},
		}
		u := unpacker{ctx: t.Context(), from: files, to: mem.New(mem.Config{}), left: x.left}
		err := u.unpack()
		if x.want == "" {
			x.want = "index/threads.json" // which is not there
		}
		if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
}
