package parse

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// flowDirs are the directories with a project's flows, in order of precedence.
var flowDirs = []string{filepath.Join(".plait", "flows"), ".workflows"}

// Find looks up the file of a flow. A name with a slash or a YAML extension is a path relative to
// dir. Any other is looked up in .plait/flows and .workflows of dir and of each directory above it
// up to the repository root, the one with .git. Without a repository only dir itself is searched:
// the directories above belong to no project. stat reports whether a path exists.
func Find(dir, name string, stat func(path string) bool) (file string, ok bool) {
	if name == "" {
		return "", false
	}
	ext := filepath.Ext(name)
	if strings.ContainsAny(name, `/\`) || ext == ".yaml" || ext == ".yml" {
		p := filepath.FromSlash(name)
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		if ext == ".yaml" || ext == ".yml" {
			return p, stat(p)
		}
		return firstExisting(p, stat)
	}
	for _, d := range searchDirs(dir, stat) {
		for _, flows := range flowDirs {
			if file, ok := firstExisting(filepath.Join(d, flows, name), stat); ok {
				return file, true
			}
		}
	}
	return "", false
}

// firstExisting returns the first existing file of those that a flow at base can have.
func firstExisting(base string, stat func(string) bool) (string, bool) {
	for _, f := range []string{base + ".yaml", base + ".yml", filepath.Join(base, "index.yaml")} {
		if stat(f) {
			return f, true
		}
	}
	return "", false
}

// searchDirs returns dir and the directories above it, up to the repository root.
func searchDirs(dir string, stat func(string) bool) []string {
	var dirs []string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		dirs = append(dirs, d)
		if stat(filepath.Join(d, ".git")) {
			return dirs
		}
		if d == filepath.Dir(d) {
			return dirs[:1]
		}
	}
}

// ProjectFiles lists the files of flows that Find finds by name from dir, those in dir first.
func ProjectFiles(dir string, stat func(path string) bool) []string {
	var files []string
	for _, d := range searchDirs(dir, stat) {
		for _, flows := range flowDirs {
			for _, form := range []string{"*.yaml", "*.yml", "*/index.yaml"} {
				// Relative to d, so that d itself is not a pattern. The patterns are valid.
				found, _ := fs.Glob(os.DirFS(d), path.Join(filepath.ToSlash(flows), form))
				for _, file := range found {
					files = append(files, filepath.Join(d, filepath.FromSlash(file)))
				}
			}
		}
	}
	return files
}

// FileName returns the name under which Find finds the file of a flow.
func FileName(file string) string {
	if filepath.Base(file) == "index.yaml" {
		return filepath.Base(filepath.Dir(file))
	}
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
}
