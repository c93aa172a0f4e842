package main

import (
	"go/ast"
	"go/token"
	"slices"
)

// A change is a file in which one thing is different.
type change struct {
	file string
	line int
	what string // what became of it
	text []byte // of the whole file
}

// opposite has, for each operator that is changed, what it becomes.
var opposite = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ,
	token.LEQ: token.GTR, token.LAND: token.LOR, token.LOR: token.LAND,
}

// changesOf returns the changes of a parsed file, in the order of its text.
func changesOf(fset *token.FileSet, f *ast.File, name string, text []byte) []change {
	var all []change
	add := func(at token.Pos, old, now string) {
		from := fset.Position(at).Offset
		all = append(all, change{name, fset.Position(at).Line, old + " → " + now,
			slices.Concat(text[:from], []byte(now), text[from+len(old):])})
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if now, ok := opposite[n.Op]; ok {
				add(n.OpPos, n.Op.String(), now.String())
			}
		case *ast.ReturnStmt:
			if len(n.Results) == 0 {
				break
			}
			if id, ok := n.Results[len(n.Results)-1].(*ast.Ident); ok && id.Name == "err" {
				add(id.Pos(), "err", "nil")
			}
		}
		return true
	})
	slices.SortStableFunc(all, func(a, b change) int { return a.line - b.line })
	return all
}
