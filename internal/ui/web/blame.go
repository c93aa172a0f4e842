package web

import (
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/app/blame"
	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// A blamed is a file with who wrote its lines.
type blamed struct {
	*blame.File
	Rows []blameRow
}

// A blameRow is a line. The first of several of one author has the author, for all of them.
type blameRow struct {
	*diffLine
	Span  int // lines of the same author from here on, 0: not the first
	Steps []*blame.Step
	By    string // the author in words
	Sure  bool
}

// Cell returns the number of the line, which can be linked to.
func (r blameRow) Cell() diffCell { return newDiffCell(&diffFile{ID: "line"}, r.diffLine, r.New, true) }

// showBlame says which steps wrote the lines of a file, as it is in a git tree.
func (s *Server) showBlame(r *http.Request, row store.Thread) (*blame.File, error) {
	ctx, file, tree := r.Context(), r.URL.Query().Get("file"), r.URL.Query().Get("tree")
	if s.cfg.Control == nil {
		return nil, notFound("this is a copy: it has no files")
	}
	if !fs.ValidPath(file) || strings.ContainsAny(file, "\x00\n") {
		return nil, badRequest("%q is not the path of a file", file)
	}
	var err error
	if tree == "" {
		if tree, err = s.cfg.Control.Tree(ctx, row.Head); err != nil {
			return nil, err
		}
		if tree == "" {
			return nil, notFound("no step of this thread has left files")
		}
	}
	if !isTree(tree) {
		return nil, badRequest("%q is not a git tree", tree)
	}
	text, err := s.cfg.Control.File(ctx, row, tree, file)
	if err != nil {
		return nil, notFound("%v", err)
	}
	repo, err := git.Open(ctx, row.Workspace)
	if err != nil {
		return nil, err
	}
	b := blame.Reader{View: s.views, Repo: repo}
	if s.cfg.Home != "" {
		b.Index = filepath.Join(s.cfg.Home, blame.IndexFile)
	}
	return b.File(ctx, file, []byte(text))
}

// blamePage shows the same beside the file.
func (s *Server) blamePage(w http.ResponseWriter, r *http.Request, row store.Thread) error {
	f, err := s.showBlame(r, row)
	if err != nil {
		return err
	}
	crumbs, err := s.breadcrumb(r.Context(), row)
	if err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, "blame", page{Title: f.Path, Nav: "tasks", Follow: "-",
		Body: blamed{f, blameRows(f)}, Crumbs: append(crumbs, crumb{"Who wrote it", ""})})
}

func blameRows(f *blame.File) (rows []blameRow) {
	before, after := scanner{language: languageOf(f.Path)}, scanner{language: languageOf(f.Path)}
	first := 0
	for i, l := range f.Lines[:min(len(f.Lines), maxFileLines)] {
		row := blameRow{diffLine: newDiffLine(view.PatchLine{Kind: view.LineAdded, New: l.N, Text: l.Text}, &before, &after)}
		row.Class = ""
		if i == 0 || f.Author(l) != f.Author(f.Lines[first]) {
			row.By, row.Sure, first = f.Author(l), l.By == blame.ByStep, i
			for _, s := range f.Steps {
				if slices.Contains(l.Steps, s.Name) {
					row.Steps = append(row.Steps, s)
				}
			}
		}
		rows = append(rows, row)
		rows[first].Span++
	}
	return rows
}
