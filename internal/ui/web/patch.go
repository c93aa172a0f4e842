package web

import (
	"strings"

	"github.com/plait-run/plait/internal/view"
)

// A changedFile is a file of a patch.
type changedFile struct {
	Path, From     string // From is set if it was renamed
	What           string // added, deleted, renamed, changed
	Added, Removed int    // lines
	Binary         bool
	Text           string   // its hunks
	By             []string // agents that changed it
}

// Long reports whether the changes of a file are folded at first.
func (f changedFile) Long() bool { return f.Added+f.Removed > foldedLines }

// foldedLines is how many changed lines a file may have without being folded at first.
const foldedLines = 60

// splitPatch splits a git patch into files.
func splitPatch(patch string) []changedFile {
	var out []changedFile
	var f *changedFile
	var text strings.Builder
	hunk := false
	flush := func() {
		if f != nil {
			f.Text = text.String()
		}
		text.Reset()
	}
	for l := range strings.Lines(patch) {
		if strings.HasPrefix(l, "diff --git ") {
			flush()
			out = append(out, changedFile{What: "changed", Path: view.PatchPath(l)})
			f, hunk = &out[len(out)-1], false
			continue
		}
		if f == nil {
			continue
		}
		if strings.HasPrefix(l, "@@ ") {
			hunk = true
		}
		if !hunk {
			f.head(strings.TrimRight(l, "\n"))
			continue
		}
		text.WriteString(l)
		switch l[0] {
		case '+':
			f.Added++
		case '-':
			f.Removed++
		}
	}
	flush()
	return out
}

// head parses a header line of a file.
func (f *changedFile) head(l string) {
	switch word, rest, _ := strings.Cut(l, " "); {
	case strings.HasPrefix(l, "new file"):
		f.What = "added"
	case strings.HasPrefix(l, "deleted file"):
		f.What = "deleted"
	case strings.HasPrefix(l, "rename from "):
		f.What, f.From = "renamed", view.GitPath(strings.TrimPrefix(l, "rename from "))
	case strings.HasPrefix(l, "rename to "):
		f.Path = view.GitPath(strings.TrimPrefix(l, "rename to "))
	case word == "GIT" || word == "Binary":
		f.Binary = true
	case word == "---" || word == "+++":
		if name := view.GitPath(strings.TrimRight(rest, "\t")); name != "/dev/null" && len(name) > 2 {
			f.Path = name[2:]
		}
	}
}

// Limits of a page: files of a patch, and bytes of all their lines.
const (
	maxFiles      = 200
	maxFilesBytes = 400 << 10
)

// shownFiles returns the files for a page, without text beyond its limits.
func shownFiles(files []changedFile) []changedFile {
	out := append([]changedFile{}, files[:min(len(files), maxFiles)]...)
	room := maxFilesBytes
	for i := range out {
		if room -= len(out[i].Text); room < 0 {
			out[i].Text, room = "", 0
		}
	}
	return out
}
