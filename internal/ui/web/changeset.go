package web

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// A changeset is a change that has a page of its own.
type changeset struct {
	Why   string // why it cannot be shown
	Diff  *diffView
	Other string // the address of its other form, unified or side by side
	All   string // the address of all of its files, if this is one of them
}

// changesLink returns the address of the page of what changed from one tree to another in a thread.
func changesLink(thread, from, to string) string {
	return "/threads/" + thread + "/changes?" + url.Values{"from": {from}, "to": {to}}.Encode()
}

// trees returns the git trees that a query names.
func trees(r *http.Request) (from, to string, err error) {
	from, to = r.URL.Query().Get("from"), r.URL.Query().Get("to")
	for _, tree := range []string{from, to} {
		if !isTree(tree) {
			return "", "", badRequest("%q is not a git tree", tree)
		}
	}
	return from, to, nil
}

// isTree reports whether a text may be the id of a git tree.
func isTree(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil && text != ""
}

// changesPage shows what changed from one git tree to another.
func (s *Server) changesPage(w http.ResponseWriter, r *http.Request, row store.Thread) error {
	ctx, q := r.Context(), r.URL.Query()
	from, to, err := trees(r)
	if err != nil {
		return err
	}
	root, err := s.cfg.Store.Thread(ctx, row.Task)
	if err != nil {
		return err
	}
	o := diffOptions{id: "changes", at: changesLink(row.ID, from, to), from: from, to: to,
		remark: s.remarkOn(row, root)}
	rec, tl, err := s.recordOf(ctx, root)
	if err != nil {
		return err
	}
	if o.given, err = s.given(ctx, tl); err != nil {
		return err
	}
	files, why := s.patchBetween(ctx, row, from, to)
	if q.Has("file") {
		if files = onlyFile(files, q.Get("file")); len(files) == 1 && q.Get("whole") == "true" {
			if after, err := s.cfg.Control.File(ctx, row, to, files[0].Path); err == nil {
				files[0].Hunks = []view.Hunk{view.Whole(files[0].Hunks, after)}
			}
		}
	} else if len(files) > 0 {
		log, err := s.changeLog(ctx, rec, tl)
		if err != nil {
			return err
		}
		agents, _ := s.agentChanges(ctx, root, log.each)
		changedBy(files, agents)
	}
	crumbs, err := s.breadcrumb(ctx, row)
	if err != nil {
		return err
	}
	return s.showChanges(w, r, files, why, o, append(crumbs, crumb{"Changes", ""}))
}

// showChanges shows a change on its own page, or the one file of it that the query names.
func (s *Server) showChanges(w http.ResponseWriter, r *http.Request, files []changedFile, why string, o diffOptions,
	crumbs []crumb) error {
	q := r.URL.Query()
	o.alone, o.one = true, q.Has("file")
	o.split = q.Get("diff") == "split"
	body := changeset{Why: why}
	if len(files) > 0 {
		body.Diff = newDiffView(files, o)
		body.Diff.Patch = strings.Replace(o.at, "/changes", "/patch", 1)
	} else if why == "" {
		body.Why = "No files changed."
	}
	if o.one {
		body.All = o.at
	}
	if q.Del("diff"); !o.split {
		q.Set("diff", "split")
	}
	body.Other = r.URL.Path + "?" + q.Encode()
	return s.show(w, r, http.StatusOK, "changes", page{Title: "Changes", Nav: "tasks", Follow: "-", Body: body,
		Crumbs: crumbs})
}

// onlyFile returns the file of this path, or none.
func onlyFile(files []changedFile, path string) []changedFile {
	return slices.DeleteFunc(files, func(f changedFile) bool { return f.Path != path })
}

// threadPatch sends what changed from one git tree to another as a patch.
func (s *Server) threadPatch(w http.ResponseWriter, r *http.Request, row store.Thread) error {
	if s.cfg.Control == nil {
		return notFound("this is a copy: it has no files to compare")
	}
	from, to, err := trees(r)
	if err != nil {
		return err
	}
	text, err := s.cfg.Control.Changes(r.Context(), row, from, to)
	if err != nil {
		return err
	}
	return hand(w, "changes.patch", int64(len(text)), strings.NewReader(text))
}

// gateOf finds the gate that a path names.
func (s *Server) gateOf(r *http.Request) (store.Gate, error) {
	return s.cfg.Store.Gate(r.Context(), r.PathValue("id"))
}

// gateChangesPage shows the change that a gate asks about.
func (s *Server) gateChangesPage(w http.ResponseWriter, r *http.Request, g store.Gate) error {
	files, err := s.gateFiles(r.Context(), g)
	if err != nil {
		return err
	}
	if r.URL.Query().Has("file") {
		files = onlyFile(files, r.URL.Query().Get("file"))
	}
	crumbs := []crumb{{"Tasks", "/tasks"}, {"Task", "/tasks/" + g.Task + "?at=" + g.ID}, {"Changes", ""}}
	return s.showChanges(w, r, files, "", gateDiffOptions(g), crumbs)
}

// gatePatch sends the change that a gate asks about as a patch.
func (s *Server) gatePatch(w http.ResponseWriter, r *http.Request, g store.Gate) error {
	text, err := s.patchOf(r.Context(), g)
	if err != nil {
		return err
	}
	return hand(w, g.ID+".patch", int64(len(text)), strings.NewReader(text))
}

func gateDiffOptions(g store.Gate) diffOptions {
	return diffOptions{id: "gate-" + g.ID + "-change", at: "/gates/" + g.ID + "/changes"}
}

// patchOf returns the patch that a gate asks about: the one stored with it, and that of its action.
func (s *Server) patchOf(ctx context.Context, g store.Gate) (string, error) {
	text, err := s.views.GateDiff(ctx, g)
	if err != nil {
		return "", err
	}
	var a gate.Action
	if len(g.Action) > 0 {
		a, _, _ = view.Action(g)
	}
	if a.Diff != text {
		text += a.Diff
	}
	return text, nil
}

// gateFiles returns the files that a gate asks about, with the agents that changed them.
func (s *Server) gateFiles(ctx context.Context, g store.Gate) ([]changedFile, error) {
	text, err := s.patchOf(ctx, g)
	if err != nil {
		return nil, err
	}
	files := splitPatch(text)
	var merge struct {
		Sides []struct{ Path, Base, Tree string }
	}
	var a gate.Action
	if g.Source != store.SourceMerge || len(files) == 0 || json.Unmarshal(g.Action, &a) != nil ||
		json.Unmarshal(a.Params, &merge) != nil {
		return files, nil
	}
	row, err := s.cfg.Store.Thread(ctx, g.Thread)
	if errors.Is(err, store.ErrNotFound) {
		return files, nil
	}
	var agents []agentChange
	for _, side := range merge.Sides[:min(len(merge.Sides), maxPatched)] {
		if side.Base != "" {
			agents = append(agents, s.newAgentChange(ctx, row, side.Path, row.ID, side.Base, side.Tree))
		}
	}
	changedBy(files, agents)
	return files, err
}
