package view

import (
	"strconv"
	"strings"
)

// PatchPath returns the path of a file from the line of a git patch that begins its part: "diff --git", and two names.
// It is "" if they differ: the file was renamed, and a later line "rename to" has its name.
func PatchPath(line string) string {
	names := strings.TrimSuffix(strings.TrimPrefix(line, "diff --git "), "\n")
	if i := strings.Index(names, ` "b/`); i >= 0 {
		return strings.TrimPrefix(GitPath(names[i+1:]), "b/")
	}
	// a/X b/X, where X may contain " b/"
	if n := (len(names) - len("a/ b/")) / 2; n > 0 && names == "a/"+names[2:2+n]+" b/"+names[2:2+n] {
		return names[2 : 2+n]
	}
	return ""
}

// GitPath returns a path as git writes it in a patch, without quotes.
func GitPath(name string) string {
	if strings.HasPrefix(name, `"`) {
		if plain, err := strconv.Unquote(name); err == nil {
			return plain
		}
	}
	return name
}
