package model

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/plait-run/plait/internal/files/git"
)

// globbed returns a pattern for names of files as a regular expression. In it * and ? match no slash, ** matches any
// number of directories, and {a,b}, if braces are allowed, one or the other.
func globbed(pattern string, braces bool) (*regexp.Regexp, error) {
	var b strings.Builder
	open := 0
	for rest := pattern; rest != ""; {
		c := rest[0]
		_, n := utf8.DecodeRuneInString(rest)
		switch {
		case strings.HasPrefix(rest, "**/"):
			b.WriteString("(?:.*/)?")
			n = 3
		case strings.HasPrefix(rest, "**"):
			b.WriteString(".*")
			n = 2
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		case c == '[':
			end := strings.IndexByte(rest[min(2, len(rest)):], ']')
			if end < 0 {
				return nil, errors.New("[ has no ]")
			}
			n = end + 3
			class := strings.ReplaceAll(rest[1:n-1], `[`, `\[`)
			if class[0] == '!' {
				class = "^" + class[1:]
			}
			b.WriteString("[" + class + "]")
		case c == '\\' && len(rest) > 1:
			rest = rest[1:]
			_, n = utf8.DecodeRuneInString(rest)
			b.WriteString(regexp.QuoteMeta(rest[:n]))
		case braces && c == '{':
			open++
			b.WriteString("(?:")
		case open > 0 && c == '}':
			open--
			b.WriteByte(')')
		case open > 0 && c == ',':
			b.WriteByte('|')
		default:
			b.WriteString(regexp.QuoteMeta(rest[:n]))
		}
		rest = rest[n:]
	}
	if open > 0 {
		return nil, errors.New("{ has no }")
	}
	return regexp.Compile(`(?s)^(?:` + b.String() + `)$`)
}

// ignored has the rules of the .gitignore files on the way to where a search is.
type ignored struct {
	rules   []rule
	off     bool
	tracked map[string]bool // files that Git tracks although rules match them, and their directories; nil: not known yet
}

// A rule is one line of a .gitignore.
type rule struct {
	dir    string // where the file is
	path   *regexp.Regexp
	base   bool // it matches names, otherwise paths below dir
	dirs   bool // it matches directories only
	negate bool
}

// begin reads the rules for a search that begins in a directory. They do not hold if that is ignored itself.
func (g *ignored) begin(root *os.Root, from string) {
	g.add(root, ".git/info/exclude", ".")
	at := "."
	for _, name := range strings.Split(from, "/") {
		g.add(root, path.Join(at, ".gitignore"), at)
		if at = path.Join(at, name); at != "." && g.matches(at, true) {
			g.off = true
			return
		}
	}
}

// enter reads the rules of a directory, and forgets those of directories that it is not in. If it is ignored itself,
// so is all that is in it.
func (g *ignored) enter(root *os.Root, dir string, itself bool) {
	for n := len(g.rules); n > 0 && !within(dir, g.rules[n-1].dir); n-- {
		g.rules = g.rules[:n-1]
	}
	switch {
	case itself:
		g.rules = append(g.rules, rule{dir: dir, path: everything, base: true})
	case dir != ".":
		g.add(root, path.Join(dir, ".gitignore"), dir)
	}
}

var everything = regexp.MustCompile(``)

// know finds out what Git tracks of a working tree. Without Git it tracks nothing.
func (g *ignored) know(ctx context.Context, tree string) {
	g.tracked = map[string]bool{}
	repo, err := git.Open(ctx, tree)
	if err != nil {
		return
	}
	files, _ := repo.Exempt(ctx) // as many as it tells
	for _, file := range files {
		rel, err := filepath.Rel(tree, filepath.Join(repo.Root(), file))
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		for rel = filepath.ToSlash(rel); rel != "." && !g.tracked[rel]; rel = path.Dir(rel) {
			g.tracked[rel] = true
		}
	}
}

// within reports whether a path is in a directory, or is that directory.
func within(file, dir string) bool {
	return dir == "." || file == dir || strings.HasPrefix(file, dir+"/")
}

// add reads the rules of a file. What is wrong in it ignores nothing, as in Git.
func (g *ignored) add(root *os.Root, file, dir string) {
	if info, err := root.Lstat(file); err != nil || !info.Mode().IsRegular() || info.Size() > maxShown {
		return
	}
	data, err := root.ReadFile(file)
	if err != nil {
		return
	}
	for line := range strings.Lines(strings.TrimPrefix(string(data), byteOrderMark)) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		r := rule{dir: dir}
		line, r.negate = strings.CutPrefix(line, "!")
		line, r.dirs = strings.CutSuffix(line, "/")
		r.base = !strings.Contains(line, "/")
		if r.path, err = globbed(strings.TrimPrefix(line, "/"), false); err == nil {
			g.rules = append(g.rules, r)
		}
	}
}

// matches reports whether a path is ignored: the last rule that matches it decides.
func (g *ignored) matches(file string, dir bool) bool {
	for i := len(g.rules) - 1; i >= 0 && !g.off; i-- {
		r := g.rules[i]
		name := strings.TrimPrefix(file, r.dir+"/")
		if r.base {
			name = path.Base(file)
		}
		if (dir || !r.dirs) && within(file, r.dir) && r.path.MatchString(name) {
			return !r.negate
		}
	}
	return false
}
