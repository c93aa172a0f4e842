package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"go/types"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// The limits on size.
const (
	maxTotal  = 80_000
	maxMiddle = 14_000
	maxLength = 80 // lines in a function
	maxFields = 20 // fields in a struct
)

// middle are the folders that drive a task.
var middle = []string{"engine", "app"}

// codeLines counts the lines of src that contain code: not blank lines, and not lines
// with only a comment.
func codeLines(src []byte) int {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	n, last := 0, 0
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return n
		}
		if tok == token.SEMICOLON && lit != ";" {
			continue // inserted by the scanner
		}
		line := file.Line(pos)
		for i, part := range strings.Split(lit, "\n") {
			if line+i > last && (i == 0 || strings.TrimSpace(part) != "") {
				n++
				last = line + i
			}
		}
	}
}

// sizes measures the lines of code.
func sizes(h *house) []measure {
	total := measure{what: "lines of code", limit: maxTotal}
	between := measure{what: strings.Join(middle, "+"), limit: maxMiddle}
	folders := map[string]int{}
	for room, n := range h.lines {
		total.now += n
		if folders[room.Folder] += n; slices.Contains(middle, room.Folder) {
			between.now += n
		}
	}
	ms := []measure{total}
	for _, folder := range bySize(folders) {
		ms = append(ms, measure{what: "  " + folder, now: folders[folder], limit: none})
		names := map[string]int{}
		for room, n := range h.lines {
			if room.Folder == folder {
				names[room.Name] = n
			}
		}
		for _, name := range bySize(names) {
			ms = append(ms, measure{what: "    " + name, now: names[name], limit: none})
		}
	}
	return append(ms, between)
}

// bySize returns the keys, that of the largest number first.
func bySize(lines map[string]int) []string {
	return slices.SortedFunc(maps.Keys(lines), func(a, b string) int {
		return cmp.Or(cmp.Compare(lines[b], lines[a]), cmp.Compare(a, b))
	})
}

// longFunctions finds the functions that are too long.
func longFunctions(h *house) measure {
	m := measure{what: fmt.Sprintf("functions over %d lines", maxLength)}
	see := func(n ast.Node, name string) {
		if lines := h.fset.Position(n.End()).Line - h.fset.Position(n.Pos()).Line + 1; lines > maxLength {
			m.now++
			m.list = append(m.list, fmt.Sprintf("%s %s: %d lines", h.at(n), name, lines))
		}
	}
	h.each(func(_ *pkg, d ast.Decl) {
		switch d := d.(type) {
		case *ast.FuncDecl:
			see(&ast.FuncDecl{Recv: d.Recv, Name: d.Name, Type: d.Type, Body: d.Body}, d.Name.Name)
		case *ast.GenDecl:
			ast.Inspect(d, func(n ast.Node) bool {
				lit, ok := n.(*ast.FuncLit)
				if ok {
					see(lit, "func")
				}
				return !ok
			})
		}
	})
	return m
}

// each calls see for every top-level declaration.
func (h *house) each(see func(*pkg, ast.Decl)) {
	for _, p := range h.packages {
		for _, f := range p.files {
			for _, d := range f.Decls {
				see(p, d)
			}
		}
	}
}

// largeStructs finds the structs that have too many fields and are neither a row (those
// declared in store) nor a JSON object (most fields have a JSON tag, as in nodes).
func largeStructs(h *house) measure {
	m := measure{what: fmt.Sprintf("structs over %d fields", maxFields)}
	h.each(func(p *pkg, d ast.Decl) {
		ast.Inspect(d, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			st, ok := spec.Type.(*ast.StructType)
			if !ok || p.types.Name() == "store" {
				return true
			}
			if fields, tagged := countFields(st); fields > maxFields && 2*tagged <= fields {
				m.now++
				m.list = append(m.list, fmt.Sprintf("%s %s.%s: %d fields", h.at(spec), p.dir, spec.Name.Name, fields))
			}
			return true
		})
	})
	return m
}

// countFields counts the fields of a struct, and those with a JSON tag.
func countFields(st *ast.StructType) (fields, tagged int) {
	for _, f := range st.Fields.List {
		n := max(1, len(f.Names))
		fields += n
		if f.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err == nil && reflect.StructTag(tag).Get("json") != "" {
			tagged += n
		}
	}
	return fields, tagged
}

// functionFields counts the function-typed fields of the engine's Config, and of the
// structs declared in engine that Config's fields consist of.
func functionFields(h *house) []measure {
	m := measure{what: "function fields in engine.Config", limit: 2}
	for _, p := range h.packages {
		if p.dir != "engine" {
			continue
		}
		config := p.types.Scope().Lookup("Config")
		if config == nil {
			return []measure{{what: "engine.Config is missing", now: 1}}
		}
		st, ok := config.Type().Underlying().(*types.Struct)
		if !ok {
			break
		}
		m.list = functionsIn("Config", st)
		seen := map[types.Type]bool{config.Type(): true}
		for f := range st.Fields() {
			named := element(f.Type())
			if named == nil || seen[named] || named.Obj().Pkg() != p.types {
				continue
			}
			seen[named] = true
			if inner, ok := named.Underlying().(*types.Struct); ok {
				m.list = append(m.list, functionsIn(named.Obj().Name(), inner)...)
			}
		}
	}
	m.now = len(m.list)
	return []measure{m}
}

// functionsIn lists the function-typed fields of a struct.
func functionsIn(name string, st *types.Struct) []string {
	var list []string
	for f := range st.Fields() {
		if _, ok := f.Type().Underlying().(*types.Signature); ok {
			list = append(list, name+"."+f.Name())
		}
	}
	return list
}

// element returns the named type that t is, points to, or has as its elements, otherwise nil.
func element(t types.Type) *types.Named {
	for {
		switch u := types.Unalias(t).(type) {
		case *types.Named:
			return u
		case interface{ Elem() types.Type }:
			t = u.Elem()
		default:
			return nil
		}
	}
}

// eventLiterals finds the string literals that spell a type of event, outside the room
// that declares them. A package that imports neither events nor the journal knows none: a literal there is a word of
// another protocol, such as Codex's thread.started.
func eventLiterals(h *house, events []string) measure {
	m := measure{what: "literals of event types"}
	look := func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if e, ok := n.(*ast.BasicLit); ok && slices.Contains(events, text(e)) {
				m.list = append(m.list, fmt.Sprintf("%s %s", h.at(e), e.Value))
			}
			return true
		})
	}
	for _, p := range h.packages {
		if p.types.Name() != "event" && knowsEvents(p) {
			for _, f := range p.files {
				look(f)
			}
		}
	}
	for _, f := range h.tools {
		look(f)
	}
	m.now = len(m.list)
	return m
}

// knowsEvents reports whether a package is that of the journal, or imports it or that of events.
func knowsEvents(p *pkg) bool {
	return p.types.Name() == "store" || slices.ContainsFunc(p.types.Imports(), func(to *types.Package) bool {
		return to.Name() == "store" || to.Name() == "event"
	})
}
