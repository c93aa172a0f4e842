package parse

import (
	"errors"
	"fmt"
	"github.com/plait-run/plait/internal/flow"
	"path"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow/yamldoc"
)

// A Source reads files. Names are slash-separated: the name passed to [Load], and names derived
// from it for includes.
type Source interface {
	ReadFile(name string) ([]byte, error)
}

const (
	maxFile         = 1 << 20
	maxIncludeDepth = 8
	maxIncludes     = 256
	maxNesting      = 40
	maxNodes        = 100_000
)

// A reader turns files into one tree of nodes, remembers where each node is from, and collects
// problems.
type reader struct {
	src      Source
	main     string
	boundary string // the directory that includes cannot leave
	texts    map[string]*lineIndex
	files    map[*yaml.Node]string // owner file of nodes that are not main's
	merged   map[*yaml.Node][]entry
	includes int
	nodes    int // nodes read for free-form values, aliases expanded
	problems []flow.Problem
	meant    map[string]bool // correct spellings of misspelt keys
}

func newReader(src Source, file string) *reader {
	return &reader{
		src: src, main: file, boundary: boundary(file),
		texts: map[string]*lineIndex{},
		files: map[*yaml.Node]string{}, merged: map[*yaml.Node][]entry{}, meant: map[string]bool{},
	}
}

// boundary returns the flow directory that file is in, otherwise the file's own directory.
func boundary(file string) string {
	dir := path.Dir(slashed(file))
	for d := dir; d != "." && d != "/"; d = path.Dir(d) {
		if isFlowDir(d) {
			return d
		}
	}
	return dir
}

func isFlowDir(dir string) bool {
	return path.Base(dir) == ".workflows" ||
		path.Base(dir) == "flows" && path.Base(path.Dir(dir)) == ".plait"
}

func slashed(file string) string { return path.Clean(strings.ReplaceAll(file, `\`, "/")) }

func (r *reader) fileOf(n *yaml.Node) string {
	if f, ok := r.files[n]; ok {
		return f
	}
	return r.main
}

func (r *reader) add(p flow.Problem) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, p)
	}
}

func (r *reader) report(n *yaml.Node, code, format string, args ...any) {
	r.add(flow.Problem{
		File: r.fileOf(n), Line: max(n.Line, 1), Col: max(n.Column, 1),
		Code: code, Message: fmt.Sprintf(format, args...),
	})
}

func (r *reader) warn(n *yaml.Node, code, format string, args ...any) {
	r.add(flow.Problem{
		File: r.fileOf(n), Line: max(n.Line, 1), Col: max(n.Column, 1),
		Code: code, Message: fmt.Sprintf(format, args...), Warning: true,
	})
}

// document parses data, which must be a single YAML document. Otherwise it reports the reason and
// returns nil.
func (r *reader) document(file string, data []byte) *yaml.Node {
	at := func(line, col int, code, format string, args ...any) {
		r.add(flow.Problem{
			File: file, Line: max(line, 1), Col: max(col, 1),
			Code: code, Message: fmt.Sprintf(format, args...),
		})
	}
	if len(data) > maxFile {
		at(1, 1, codeTooLarge, "the file has %d bytes, the most is %d", len(data), maxFile)
		return nil
	}
	if i := invalidUTF8(data); i >= 0 {
		line, col := newLineIndex(data).position(i)
		at(line, col, codeBadUTF8, "byte 0x%02x is not UTF-8", data[i])
		return nil
	}
	r.texts[file] = newLineIndex(data)
	parse := yamldoc.Parse
	if path.Ext(file) == ".json" {
		parse = yamldoc.ParseJSON
	}
	doc, err := parse(data)
	var bad *yamldoc.Error
	if errors.As(err, &bad) {
		at(bad.Line, bad.Column, codeBadYAML, "%s", bad.Message)
		return nil
	}
	if doc == nil {
		at(1, 1, codeBadYAML, "the file is empty")
		return nil
	}
	if file != r.main {
		r.setFile(doc, file)
	}
	return doc
}

func (r *reader) setFile(n *yaml.Node, file string) {
	r.files[n] = file
	for _, c := range n.Content {
		r.setFile(c, file)
	}
}

// normalize walks the raw tree once. It reports duplicate keys and unknown tags, and replaces
// each !include by the file it names.
func (r *reader) normalize(n *yaml.Node, stack []string) {
	if n.Tag == "!include" {
		r.include(n, stack)
		return
	}
	if n.Kind != yaml.AliasNode && !yamldoc.KnownTag(n) {
		r.report(n, codeUnknownTag, "unknown tag %s; the only tag of a flow is !include", n.ShortTag())
		if n.Kind == yaml.ScalarNode {
			n.Tag = tagBroken
		}
	}
	if n.Kind == yaml.MappingNode {
		_, bad := yamldoc.Pairs(n)
		for _, e := range bad {
			code := codeBadYAML
			if e.Duplicate {
				code = codeDuplicateKey
			}
			r.add(flow.Problem{File: r.fileOf(n), Line: e.Line, Col: e.Column, Code: code, Message: e.Message})
		}
	}
	for _, c := range n.Content {
		r.normalize(c, stack)
	}
}

// include replaces n by the file it names: the node of a YAML file, or the text of any other
// file.
func (r *reader) include(n *yaml.Node, stack []string) {
	from := stack[len(stack)-1]
	bad := func(format string, args ...any) {
		r.report(n, codeBadInclude, format, args...)
		// The remaining value is one that later checks do not report again.
		*n = yaml.Node{Kind: yaml.ScalarNode, Tag: tagBroken, Line: n.Line, Column: n.Column}
	}
	if n.Kind != yaml.ScalarNode || n.Value == "" {
		bad("!include takes the name of a file")
		return
	}
	name := slashed(path.Join(path.Dir(slashed(from)), n.Value))
	switch {
	case r.src == nil:
		bad("nothing can be included here")
		return
	case path.IsAbs(n.Value) || strings.Contains(n.Value, `\`) || strings.Contains(n.Value, ":") ||
		!isWithin(r.boundary, name):
		bad("%q is outside %s", n.Value, r.boundary)
		return
	case len(stack) > maxIncludeDepth:
		bad("includes are nested deeper than %d", maxIncludeDepth)
		return
	}
	for _, s := range stack {
		if slashed(s) == name {
			bad("%q includes itself: %s", n.Value, strings.Join(append(stack[:len(stack):len(stack)], name), " → "))
			return
		}
	}
	r.includes++
	if r.includes > maxIncludes {
		bad("more than %d includes", maxIncludes)
		return
	}
	data, err := r.src.ReadFile(name)
	if err != nil {
		bad("read %q: %v", n.Value, err)
		return
	}
	line, col := n.Line, n.Column
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		doc := r.document(name, data)
		if doc == nil {
			*n = yaml.Node{Kind: yaml.ScalarNode, Tag: tagBroken, Line: line, Column: col}
			return
		}
		r.normalize(doc, append(stack[:len(stack):len(stack)], name))
		*n = *doc
	default:
		if len(data) > maxFile {
			bad("%q has %d bytes, the most is %d", n.Value, len(data), maxFile)
			return
		}
		if invalidUTF8(data) >= 0 {
			bad("%q is not UTF-8 text", n.Value)
			return
		}
		r.texts[name] = newLineIndex(data)
		*n = yaml.Node{Kind: yaml.ScalarNode, Style: yaml.LiteralStyle, Tag: "!!str", Value: string(data), Line: 1,
			Column: 1}
	}
	r.files[n] = name
}

// tagBroken marks a node that was already reported.
const tagBroken = "!broken"

func isWithin(dir, name string) bool {
	rest, ok := name, true
	if dir != "." {
		rest, ok = strings.CutPrefix(name, strings.TrimSuffix(dir, "/")+"/")
	}
	return ok && rest != ".." && !strings.HasPrefix(rest, "../")
}

func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}
