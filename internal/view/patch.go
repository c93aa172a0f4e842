package view

import (
	"strconv"
	"strings"
)

// A FilePatch is what a patch changes in one file.
type FilePatch struct {
	Path, From     string // From is set if it was renamed
	What           string // added, deleted, renamed, changed
	Added, Removed int    // lines
	Binary         bool
	Text           string // its hunks
}

// SplitPatch splits a git patch into files.
func SplitPatch(patch string) []FilePatch {
	var out []FilePatch
	var f *FilePatch
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
			out = append(out, FilePatch{What: "changed", Path: patchPath(l)})
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
func (f *FilePatch) head(l string) {
	switch word, rest, _ := strings.Cut(l, " "); {
	case strings.HasPrefix(l, "new file"):
		f.What = "added"
	case strings.HasPrefix(l, "deleted file"):
		f.What = "deleted"
	case strings.HasPrefix(l, "rename from "):
		f.What, f.From = "renamed", gitPath(strings.TrimPrefix(l, "rename from "))
	case strings.HasPrefix(l, "rename to "):
		f.Path = gitPath(strings.TrimPrefix(l, "rename to "))
	case word == "GIT" || word == "Binary":
		f.Binary = true
	case word == "---" || word == "+++":
		if name := gitPath(strings.TrimRight(rest, "\t")); name != "/dev/null" && len(name) > 2 {
			f.Path = name[2:]
		}
	}
}

// patchPath returns the path of a file from the line of a git patch that begins its part: "diff --git", and two names.
// It is "" if they differ: the file was renamed, and a later line "rename to" has its name.
func patchPath(line string) string {
	names := strings.TrimSuffix(strings.TrimPrefix(line, "diff --git "), "\n")
	if i := strings.Index(names, ` "b/`); i >= 0 {
		return strings.TrimPrefix(gitPath(names[i+1:]), "b/")
	}
	// a/X b/X, where X may contain " b/"
	if n := (len(names) - len("a/ b/")) / 2; n > 0 && names == "a/"+names[2:2+n]+" b/"+names[2:2+n] {
		return names[2 : 2+n]
	}
	return ""
}

// gitPath returns a path as git writes it in a patch, without quotes.
func gitPath(name string) string {
	if strings.HasPrefix(name, `"`) {
		if plain, err := strconv.Unquote(name); err == nil {
			return plain
		}
	}
	return name
}
