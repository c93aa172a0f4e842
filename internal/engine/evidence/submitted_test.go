package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/plait-run/plait/internal/record/thread"
)

func TestSubmittedFiles(t *testing.T) {
	s := newScene(t)
	row := s.row
	outside := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(outside, []byte("secret\n"), 0o644),
		os.Symlink(outside, filepath.Join(row.Tree, "out")),
		os.Symlink("a.txt", filepath.Join(row.Tree, "in")),
		os.Symlink(filepath.Dir(outside), filepath.Join(row.Tree, "outdir")),
		os.Mkdir(filepath.Join(row.Tree, "dir"), 0o755), syscall.Mkfifo(filepath.Join(row.Tree, "pipe"),
			0o644)); err != nil {
		t.Fatal(err)
	}
	write(t, row, "huge", "")
	if err := os.Truncate(filepath.Join(row.Tree, "huge"), 100<<20); err != nil {
		t.Fatal(err)
	}
	entry := func(fields string) string {
		return `{"$status":"done","evidence":[{"id":"x","kind":"file-anchor","title":"t",` + fields + `}]}`
	}
	for _, tt := range []struct{ name, output, want string }{
		{"a line", entry(`"path":"a.txt","startLine":3`), ""},
		{"lines", entry(`"path":"./dir/../a.txt","startLine":1,"endLine":3`), ""},
		{"absolute, inside", entry(fmt.Sprintf(`"path":%q`, filepath.Join(row.Tree, "a.txt"))), ""},
		{"through a link that stays", entry(`"path":"in","startLine":1`), ""},
		{"up and out", entry(`"path":"../secret"`), "does not lie in the working tree"},
		{"absolute, outside", entry(fmt.Sprintf(`"path":%q`, outside)), "does not lie in the working tree"},
		{"a link out", entry(`"path":"out"`), "out: path escapes"},
		{"a directory link out", entry(`"path":"outdir/secret"`), "path escapes"},
		{"a directory", entry(`"path":"dir"`), "not a regular file"},
		{"a pipe", entry(`"path":"pipe"`), "not a regular file"},
		{"nothing there", entry(`"path":"nothing"`), "no such file"},
		{"a NUL", entry(`"path":"a.txt\u0000"`), "does not lie"},
		{"huge", entry(`"path":"huge","startLine":1`), "at most 64 MiB"},
		{"no such line", entry(`"path":"a.txt","startLine":3,"endLine":4`), "has 3 lines, so there is no line 4"},
		{"line 0", entry(`"path":"a.txt","startLine":0`), "lines count from 1"},
		{"backwards", entry(`"path":"a.txt","startLine":3,"endLine":2`), "lines count from 1"},
		{"an end alone", entry(`"path":"a.txt","endLine":2`), "no startLine"},
		{"half a line", entry(`"path":"a.txt","startLine":1.5`), "evidence[0]"},
		{"no path", entry(`"summary":"s"`), "has no path"},
		{"an id with a slash", `{"$status":"done","evidence":[{"id":"a/b","kind":"file-anchor","title":"t",` +
			`"path":"a.txt"}]}`, `"a/b" must be`},
		{"an empty title", `{"$status":"done","evidence":[{"id":"a","kind":"file-anchor","title":" \u001b ",` +
			`"path":"a.txt"}]}`, "has no title"},
		{"twice", `{"$status":"done","evidence":[{"id":"a","kind":"file-anchor","title":"t","path":"a.txt"},` +
			`{"id":"a","kind":"file-anchor","title":"t","path":"a.txt"}]}`, "is a duplicate"},
		{"no such command", `{"$status":"done","evidence":[{"id":"a","kind":"command-execution","title":"t",` +
			`"command":"rm"}]}`, `no command "rm"`},
		{"no command", `{"$status":"done","evidence":[{"id":"a","kind":"command-execution","title":"t"}]}`,
			"must name in command"},
		{"a command by its line, and a file", `{"$status":"done","evidence":[{"id":"a","kind":"command-execution",` +
			`"title":"t","command":"ls -l","path":"a.txt"}]}`, ""},
		{"too many", `{"$status":"done","evidence":[` +
			strings.TrimSuffix(strings.Repeat(`{"id":"a","kind":"file-anchor","title":"t","path":"a.txt"},`, 10_000),
				",") + `]}`, "is a duplicate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := s.answer(tt.output, ran("ls -l", "", 0))
			kept, err := s.Record(t.Context(), a)
			mustRefuse(t, err, tt.want)
			if want := 2; tt.want == "" && len(kept.Added) != want {
				t.Errorf("%d entries, want %d", len(kept.Added), want)
			}
			for _, o := range a.Bytes.Objects {
				if strings.Contains(string(o.Data), "secret") {
					t.Errorf("bytes from outside are kept: %q", o.Data)
				}
			}
		})
	}
	var many []string
	for i := range 10_000 {
		many = append(many, fmt.Sprintf(`{"id":"e%d","kind":"file-anchor","title":"t","path":"a.txt"}`, i))
	}
	_, err := s.prove(t, false, `{"$status":"done","evidence":[`+strings.Join(many, ",")+`]}`)
	mustRefuse(t, err, "more than 200 entries")
	kept, err := s.prove(t, false, `{"$status":"done","evidence":[{"id":"a","kind":"file-anchor",`+
		`"title":"\u001b[2J\u0007title\nmore","path":"a.txt"}]}`)
	if err != nil || kept.Added[0].Title != "[2J title …" {
		t.Errorf("title %q, %v", kept.Added[0].Title, err)
	}
}

// FuzzSubmitted: whatever is submitted, what is kept can be named and has a place.
func FuzzSubmitted(f *testing.F) {
	for _, s := range []string{`[]`, `["evidence:a"]`, `[{"id":"a","kind":"file-anchor","title":"t","path":"p",` +
		`"startLine":1}]`, `[{"kind":"command-execution"}]`, `{}`, `[[]]`, `[{"kind":["file-anchor"]}]`} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, list []byte, strict bool) {
		meta, err := json.Marshal(map[string]json.RawMessage{"evidence": list})
		if err != nil {
			return
		}
		entries, cited, problems := readSubmitted(meta, strict)
		for _, h := range entries {
			if !thread.LocalID(h.ID) || oneLine(h.Title) == "" || h.Path == "" && h.Command == "" ||
				h.StartLine != nil && *h.StartLine < 1 {
				t.Errorf("%s gives %+v", list, h)
			}
		}
		if !strict && len(cited) > 0 || len(entries) > maxSubmitted {
			t.Errorf("%s gives %d entries, %d citations, %q", list, len(entries), len(cited), problems)
		}
	})
}
