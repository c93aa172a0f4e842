package taskdir

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/plait-run/plait/internal/agent"
)

func TestAttachments(t *testing.T) {
	d, tree := At(t.TempDir(), taskID), t.TempDir()
	if got := d.Attachments(tree); got != nil {
		t.Errorf("without a directory: %+v", got)
	}
	if err := d.Create(Program{}, false); err != nil {
		t.Fatal(err)
	}
	if got := d.Attachments(tree); got != nil {
		t.Errorf("as it was made: %+v", got)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	write(secret, "s3cret\n")
	write(filepath.Join(tree, "api.MD"), "one\ntwo\nthree")
	write(filepath.Join(tree, "big"), strings.Repeat("x", maxAttachment+1))
	write(filepath.Join(tree, "bytes"), "\xff\n")
	if err := os.Symlink(secret, filepath.Join(tree, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(tree, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(d.Path(), manifestFile)
	for _, tt := range []struct {
		entry string
		want  string // the line; or, after a colon, a part of the error
		name  string
		data  string
	}{
		{`{id: api, kind: file, path: api.MD, reason: "keep\nto it"}`, "attachment api: api.MD in the working tree, because keep to it", "", ""},
		{`{id: api, kind: file, path: api.MD, range: [2, 9]}`, "attachment api: api.MD lines 2-9, in $PLAIT_CONTEXT/attachment-api.md", "attachment-api.md", "two\nthree"},
		{`{id: s, kind: snippet, text: "a: b", reason: why}`, "attachment s: a snippet, because why, in $PLAIT_CONTEXT/attachment-s.txt", "attachment-s.txt", "a: b"},
		{`{id: api, kind: file, path: api.MD, range: [4, 9]}`, ":it has no line 4", "", ""},
		{`{id: api, kind: file, path: api.MD, range: [0, 9]}`, ":in lines from 1", "", ""},
		{`{id: api, kind: file, path: api.MD, range: [3, 2]}`, ":in lines from 1", "", ""},
		{`{id: api, kind: file, path: big, range: [1, 1]}`, ":more than 262144 bytes", "", ""},
		{`{id: api, kind: file, path: bytes, range: [1, 1]}`, ":not UTF-8", "", ""},
		{`{id: api, kind: file, path: link}`, ":escapes", "", ""},
		{`{id: api, kind: file, path: pipe}`, ":not a plain file", "", ""},
		{`{id: api, kind: file, path: .}`, ":not a plain file", "", ""},
		{`{id: api, kind: file, path: ../x}`, ":not inside", "", ""},
		{`{id: api, kind: file, path: /etc/passwd}`, ":not inside", "", ""},
		{`{id: api, kind: file, path: nope}`, ":no such file", "", ""},
		{`{id: a/b, kind: snippet, text: x}`, ":an id has", "", ""},
		{`{kind: snippet, text: x}`, ":attachment number 1", "", ""},
		{`{id: x, kind: picture}`, ":no kind", "", ""},
		{`{id: x, kind: snippet}`, ":needs text", "", ""},
		{`[1, 2]`, ":attachment number 1 is missing", "", ""},
	} {
		write(manifest, "attachments:\n  - "+tt.entry+"\n")
		got := d.Attachments(tree)
		if len(got) != 1 {
			t.Fatalf("%s: %+v", tt.entry, got)
		}
		part, wrong := strings.CutPrefix(tt.want, ":")
		if wrong && (!strings.Contains(got[0].Line, part) || got[0].Name != "" || strings.Contains(got[0].Line, "\n")) {
			t.Errorf("%s: %+v, want what says %q", tt.entry, got[0], part)
		}
		if diff := cmp.Diff(agent.Attachment{Line: tt.want, Name: tt.name, Data: []byte(tt.data)}, got[0]); !wrong && (got[0].Line != tt.want || got[0].Name != tt.name || string(got[0].Data) != tt.data) {
			t.Errorf("%s: -want +got\n%s", tt.entry, diff)
		}
	}
	write(manifest, "attachments:\n"+strings.Repeat("  - {id: x, kind: snippet, text: x}\n", maxAttachments+3))
	got := d.Attachments(tree)
	if len(got) != maxAttachments+1 || !strings.HasPrefix(got[maxAttachments].Line, "3 more") || !strings.Contains(got[1].Line, "another one has its id") {
		t.Errorf("%d attachments, the last %+v", len(got), got[len(got)-1])
	}
	for _, bad := range []string{"attachments: [", "attachments: 3", strings.Repeat("#", maxManifest+1), "\xff: 1"} {
		write(manifest, bad)
		if got := d.Attachments(tree); len(got) != 1 || !strings.Contains(got[0].Line, "is not used") {
			t.Errorf("%.20q: %+v", bad, got)
		}
	}
}

func FuzzManifest(f *testing.F) {
	d := At(f.TempDir(), taskID)
	if err := d.Create(Program{}, false); err != nil {
		f.Fatal(err)
	}
	f.Add("attachments: [{id: a, kind: snippet, text: b}]")
	f.Add("a: &a [*a]\nattachments: *a")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(filepath.Join(d.Path(), manifestFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, a := range d.Attachments(d.Path()) {
			if a.Line == "" || strings.Contains(a.Line, "\n") || len(a.Data) > maxAttachment || strings.ContainsAny(a.Name, "/\\") {
				t.Errorf("%+v", a)
			}
		}
	})
}
