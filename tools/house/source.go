package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/testing/rooms"
)

// A house is the source of the product.
type house struct {
	root     string
	fset     *token.FileSet
	packages []*pkg
	tools    []*ast.File        // searched for event types only
	lines    map[rooms.Room]int // lines of code, of all platforms
	plan     *rooms.Plan
}

// A pkg is one package as built on this platform.
type pkg struct {
	dir   string // below internal; cmd/NAME for a program
	room  rooms.Room
	files []*ast.File
	info  *types.Info
	types *types.Package
}

// at returns the file and line of a node.
func (h *house) at(n ast.Node) string {
	pos := h.fset.Position(n.Pos())
	name, err := filepath.Rel(h.root, pos.Filename)
	if err != nil {
		name = pos.Filename
	}
	return fmt.Sprintf("%s:%d", filepath.ToSlash(name), pos.Line)
}

// load reads and checks the repository that contains dir.
func load(dir string) (*house, error) {
	mod, err := command(dir, "go", "env", "GOMOD")
	if err != nil {
		return nil, err
	}
	h := &house{root: filepath.Dir(strings.TrimSpace(string(mod))), fset: token.NewFileSet()}
	if h.plan, err = rooms.Read(h.root); err != nil {
		return nil, err
	}
	if h.lines, err = countRooms(h.root, h.plan); err != nil {
		return nil, err
	}
	if err := h.parseTools(); err != nil {
		return nil, err
	}
	return h, h.loadPackages()
}

// parseTools parses the tools.
func (h *house) parseTools() error {
	names, err := filepath.Glob(filepath.Join(h.root, "tools", "*", "*.go"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(h.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		h.tools = append(h.tools, f)
	}
	return nil
}

func command(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

// loadPackages type-checks the packages, each after its imports: those of the module
// from source, the rest from export data.
func (h *house) loadPackages() error {
	out, err := command(h.root, "go", "list", "-export", "-deps",
		"-json=ImportPath,Dir,GoFiles,Export,Module", "./internal/...", "./cmd/...")
	if err != nil {
		return err
	}
	exports := map[string]string{}
	im := &sources{own: map[string]*types.Package{}}
	im.rest = importer.ForCompiler(h.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var listed struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
			Module                  *struct{ Main bool }
		}
		if err := dec.Decode(&listed); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("read what go list says: %w", err)
		}
		exports[listed.ImportPath] = listed.Export
		if listed.Module == nil || !listed.Module.Main || len(listed.GoFiles) == 0 {
			continue
		}
		rel, err := filepath.Rel(h.root, listed.Dir)
		if err != nil {
			return err
		}
		files := map[string][]byte{}
		for _, name := range listed.GoFiles {
			name = filepath.Join(listed.Dir, name)
			if files[name], err = os.ReadFile(name); err != nil {
				return err
			}
		}
		p, err := check(h.fset, listed.ImportPath, files, im)
		if err != nil {
			return err
		}
		im.own[listed.ImportPath] = p.types
		p.dir = strings.TrimPrefix(filepath.ToSlash(rel), "internal/")
		if p.room = roomOf(h.plan, filepath.ToSlash(rel)); p.room.Folder != suites {
			h.packages = append(h.packages, p)
		}
	}
}

// check parses and type-checks the files of one package.
func check(fset *token.FileSet, importPath string, files map[string][]byte, im types.Importer) (*pkg, error) {
	p := &pkg{dir: importPath, info: &types.Info{
		Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{},
	}}
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f, err := parser.ParseFile(fset, name, files[name], parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
	}
	var err error
	p.types, err = (&types.Config{Importer: im}).Check(importPath, fset, p.files, p.info)
	return p, err
}

// sources imports packages that have already been checked, and the rest from elsewhere.
type sources struct {
	own  map[string]*types.Package
	rest types.Importer
}

func (s *sources) Import(path string) (*types.Package, error) {
	if p := s.own[path]; p != nil {
		return p, nil
	}
	return s.rest.Import(path)
}

// suites is the folder of what is for tests and tools only.
const suites = "testing"

// text returns the value of a string literal, and "" for any other expression.
func text(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return s
}

// above reports whether package a imports package b, directly or through others.
func above(a, b *types.Package) bool {
	seen := map[*types.Package]bool{}
	var reach func(from *types.Package) bool
	reach = func(from *types.Package) bool {
		if seen[from] {
			return false
		}
		seen[from] = true
		return slices.ContainsFunc(from.Imports(), func(to *types.Package) bool { return to == b || reach(to) })
	}
	return reach(a)
}

// countRooms counts the lines of code of each room, for all platforms.
func countRooms(root string, plan *rooms.Plan) (map[rooms.Room]int, error) {
	lines := map[rooms.Room]int{}
	for _, top := range []string{"internal", "cmd"} {
		err := fs.WalkDir(os.DirFS(root), top, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "testdata" || name == "internal/"+suites) {
				return fs.SkipDir
			}
			if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return nil
			}
			src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
			if err != nil {
				return err
			}
			lines[roomOf(plan, path.Dir(name))] += codeLines(src)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return lines, nil
}

// roomOf returns the room of a directory of the repository. A program is one of cmd.
func roomOf(plan *rooms.Plan, dir string) rooms.Room {
	if name, ok := strings.CutPrefix(dir, "cmd/"); ok {
		return rooms.Room{Folder: "cmd", Name: name}
	}
	return plan.Of(strings.TrimPrefix(dir, "internal/"))
}
