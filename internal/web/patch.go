package web

import (
	"strconv"
	"strings"
)

// A changedFile is a file of a patch.
type changedFile struct {
	Path, From     string // From where it was renamed
	What           string // added, deleted, renamed, changed
	Added, Removed int    // lines
	Binary         bool
	Text           string   // its part of the patch, from the first hunk on
	By             []string // agents that changed it
}

// Long reports whether a file's changes are folded at first.
func (f changedFile) Long() bool { return f.Added+f.Removed > foldedLines }

// foldedLines is how many changed lines of a file are open at first.
const foldedLines = 60

// splitPatch takes a patch of git apart.
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
		if rest, ok := strings.CutPrefix(l, "diff --git "); ok {
			flush()
			out = append(out, changedFile{What: "changed"})
			f, hunk = &out[len(out)-1], false
			rest = strings.TrimSpace(rest)
			if i := strings.LastIndex(rest, " b/"); i >= 0 { // what follows says it better where it can
				f.Path = rest[i+3:]
			}
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

// head reads a line of the head of a file's part.
func (f *changedFile) head(l string) {
	switch word, rest, _ := strings.Cut(l, " "); {
	case strings.HasPrefix(l, "new file"):
		f.What = "added"
	case strings.HasPrefix(l, "deleted file"):
		f.What = "deleted"
	case strings.HasPrefix(l, "rename from "):
		f.What, f.From = "renamed", unquoted(strings.TrimPrefix(l, "rename from "))
	case strings.HasPrefix(l, "rename to "):
		f.Path = unquoted(strings.TrimPrefix(l, "rename to "))
	case word == "GIT" || word == "Binary":
		f.Binary = true
	case word == "---" || word == "+++":
		if name := unquoted(strings.TrimRight(rest, "\t")); name != "/dev/null" && len(name) > 2 {
			f.Path = name[2:]
		}
	}
}

// unquoted is a path as git writes it, without its quotes.
func unquoted(name string) string {
	if strings.HasPrefix(name, `"`) {
		if plain, err := strconv.Unquote(name); err == nil {
			return plain
		}
	}
	return name
}

// Bounds of a page: files of one patch, and bytes of their lines together.
const (
	maxFiles      = 200
	maxFilesBytes = 400 << 10
)

// shownFiles are the files that a page has, those past its bounds without their lines.
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
