package proc

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// InPath returns the path of the named program in the directories of paths, a list in the format of PATH.
// Errors: fs.ErrNotExist, fs.ErrPermission.
func InPath(paths, name string) (string, error) {
	found := error(fs.ErrNotExist)
	for _, d := range filepath.SplitList(paths) {
		// A relative entry would let a working tree put its own program first.
		if !filepath.IsAbs(d) {
			continue
		}
		p := filepath.Join(d, name)
		err := runnable(p)
		if err == nil {
			return p, nil
		}
		// A directory that cannot be searched, whose error only wraps ErrPermission, is skipped, as shells do.
		if err == fs.ErrPermission {
			found = err
		}
	}
	return "", found
}

// Installed returns the program that path refers to: a file, or what matches the first pattern that anything matches in
// the directory that it was installed to; "" if there is none. A script need not be executable.
func Installed(path string, script bool, patterns ...string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return ""
	case info.IsDir():
		for _, pattern := range patterns {
			// The pattern is well-formed.
			if found, _ := filepath.Glob(filepath.Join(real, filepath.FromSlash(pattern))); len(found) > 0 {
				return found[0]
			}
		}
		return ""
	case info.Mode()&0o111 == 0 && !script:
		return ""
	}
	return real
}

// CompareVersions compares two versions: numbers separated by dots. What is not a number counts as 0.
func CompareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		var x, y int
		if i < len(as) {
			x, _ = strconv.Atoi(as[i])
		}
		if i < len(bs) {
			y, _ = strconv.Atoi(bs[i])
		}
		if order := cmp.Compare(x, y); order != 0 {
			return order
		}
	}
	return 0
}
