package transfer_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/transfer"
	"github.com/plait-run/plait/internal/testing/mem"
)

// metered counts the bytes that are read of one file.
type metered struct {
	fs.FS
	name string
	read int
}

func (m *metered) Open(name string) (fs.File, error) {
	f, err := m.FS.Open(name)
	if err == nil && name == m.name {
		return &meteredFile{f, m}, nil
	}
	return f, err
}

type meteredFile struct {
	fs.File
	of *metered
}

func (f *meteredFile) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	f.of.read += n
	return n, err
}

// TestManyRows checks that rows of an export are refused one by one, before all are in memory.
func TestManyRows(t *testing.T) {
	const id = "01K0ABCDEFGHJKMNPQRSTVWXYZ"
	row := `{"id":"` + id + `","task":"` + id + `","root":"` + id + `","short":"odd"}`
	attempt := `{"id":"a","thread":"` + id + `"}`
	many := func(item string) string { return "[" + strings.Repeat(item+",", 999_999) + item + "]" }
	for _, tt := range []struct{ file, text, want string }{
		{"threads", many(`{}`), "does not belong to task"},
		{"threads", many(row), "is there twice"},
		{"threads", many(strings.Replace(row, id, "", 1)), "has no id"},
		{"attempts", many(`{}`), "belongs to none of its threads"},
		{"gates", many(`{}`), "belongs to none of its threads"},
		{"attempts", "[" + attempt + "," + attempt + "]", "its rows: "},
		{"attempts", many(attempt)[:110_000*len(attempt)], "the list is too long"},
		{"gates", `{}`, "is not a list"},
		{"gates", `[`, "gates.json: EOF"},
	} {
		t.Run(tt.file+" "+tt.want, func(t *testing.T) {
			files := fstest.MapFS{
				"manifest.json":       {Data: []byte(`{"schema":"plait.export/1","task":"` + id + `"}`)},
				"objects":             {Mode: fs.ModeDir | 0o700},
				"index/threads.json":  {Data: []byte("[" + row + "]")},
				"index/attempts.json": {Data: []byte("[]")},
				"index/gates.json":    {Data: []byte("null")},
				"index/events.jsonl":  {},
			}
			name := "index/" + tt.file + ".json"
			files[name] = &fstest.MapFile{Data: []byte(tt.text)}
			from := &metered{FS: files, name: name}
			_, err := transfer.Unpack(t.Context(), from, mem.New(mem.Config{}))
			if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Unpack = %v, want a damaged export and %q", err, tt.want)
			}
			if from.read > 6<<20 {
				t.Errorf("%d bytes were read", from.read)
			}
		})
	}
}
