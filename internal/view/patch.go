package view

import (
	"strconv"
	"strings"
)

// SplitPatch splits a unified diff, as git or an agent writes it, into files. Nothing that could be meant as a change
// is left out: what it cannot read is the Rest of the file before it, or of a first one without a path.
func SplitPatch(patch string) []FilePatch {
	var out []FilePatch
	var rest strings.Builder
	begin := func(f FilePatch) {
		if len(out) > 0 {
			out[len(out)-1].Rest = rest.String()
		}
		rest.Reset()
		out = append(out, f)
	}
	f := func() *FilePatch { // the file at hand
		if len(out) == 0 {
			begin(FilePatch{What: "changed"})
		}
		return &out[len(out)-1]
	}
	git := false // in the header of a file
	var h hunkReader
	lines := strings.SplitAfter(strings.TrimSuffix(patch, "\n"), "\n")
	for i, l := range lines {
		l = strings.TrimSuffix(l, "\n")
		switch {
		case h.read(l):
		case strings.HasPrefix(l, "diff --git "):
			begin(FilePatch{What: "changed", Path: patchPath(l)})
			git, h = true, hunkReader{}
		case strings.HasPrefix(l, "--- ") && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "+++ "):
			if !git {
				begin(FilePatch{What: "changed"})
			}
			f().head(l)
		case strings.HasPrefix(l, "+++ ") && i > 0 && strings.HasPrefix(lines[i-1], "--- "):
			f().head(l)
			git, h = false, hunkReader{}
		case h.begin(l):
			git = false
			h.into = f()
			h.into.Hunks = append(h.into.Hunks, h.hunk())
		case git && (f().Binary || f().head(l)):
		case strings.TrimSpace(l) != "":
			f()
			rest.WriteString(l + "\n")
		}
	}
	if len(out) > 0 {
		out[len(out)-1].Rest = rest.String()
	}
	for i := range out {
		for j := range out[i].Hunks {
			out[i].Hunks[j].mark()
		}
	}
	return out
}

// head parses a header line of a file, and reports whether it is one.
func (f *FilePatch) head(l string) bool {
	word, rest, _ := strings.Cut(l, " ")
	switch {
	case strings.HasPrefix(l, "new file"):
		f.What = "added"
	case strings.HasPrefix(l, "deleted file"):
		f.What = "deleted"
	case strings.HasPrefix(l, "old mode "):
		f.Mode = strings.TrimPrefix(l, "old mode ")
	case strings.HasPrefix(l, "new mode "):
		f.Mode += " → " + strings.TrimPrefix(l, "new mode ")
	case strings.HasPrefix(l, "rename from "):
		f.What, f.From = "renamed", gitPath(strings.TrimPrefix(l, "rename from "))
	case strings.HasPrefix(l, "rename to "):
		f.Path = gitPath(strings.TrimPrefix(l, "rename to "))
	case word == "GIT" || word == "Binary":
		f.Binary = true
	case rest != "" && (word == "---" || word == "+++"):
		name := gitPath(strings.TrimRight(rest, "\t"))
		switch {
		case name == "/dev/null" && word == "---":
			f.What = "added"
		case name == "/dev/null":
			f.What = "deleted"
		case strings.HasPrefix(name, "a/"), strings.HasPrefix(name, "b/"):
			f.Path = name[2:]
		default:
			f.Path = name
		}
	default:
		return word == "index" || word == "similarity" || word == "dissimilarity"
	}
	return true
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
