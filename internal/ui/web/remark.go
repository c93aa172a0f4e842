package web

import (
	"context"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// A remark says what becomes of a comment on a line of a change.
type remark struct {
	Reason bool // it goes into the answer to the question that the change belongs to
	Ways   []remarkWay
	Next   string // the page that follows, see plait.js
}

// A remarkWay is a request that sends the comment.
type remarkWay struct{ Label, API string }

// A given remark is one that was made on a line.
type given struct {
	Path     string
	Tree     string
	From, To int // lines
	By, Text string
	Link     string // to its step
	Columns  int    // of the table that it is shown in
}

// remarkOn returns what becomes of a comment on a change of a thread: a message to it, or else to its task, while they
// have not ended, otherwise the input of another try or a fork. It is nil if nothing can be said here.
func (s *Server) remarkOn(row, root store.Thread) *remark {
	if s.cfg.ReadOnly || s.cfg.Control == nil {
		return nil
	}
	for _, to := range []store.Thread{row, root} {
		if !to.Ended() {
			return &remark{Ways: []remarkWay{{"Send", "/api/v1/tasks/" + to.ID + "/resume"}}}
		}
	}
	fork := remarkWay{"Fork with this", "/api/v1/threads/" + root.ID + "/fork"}
	if root.Status == store.Completed {
		return &remark{Ways: []remarkWay{fork}, Next: "/tasks/{id}"}
	}
	retry := remarkWay{"Retry with this", "/api/v1/tasks/" + root.ID + "/retry"}
	return &remark{Ways: []remarkWay{retry, fork}, Next: "/tasks/{id}"}
}

// remark adds to lines the remarks that were made on them.
func (p *diffPart) remark(f *diffFile, o diffOptions) {
	columns := 3
	if o.split {
		columns = 4
	}
	for _, l := range p.Lines {
		for _, g := range o.given {
			if g.Tree == o.to && g.Path == f.Path && g.To == l.New && l.Class != "del" ||
				g.Tree == o.from && (g.Path == f.From || f.From == "" && g.Path == f.Path) && g.To == l.Old && l.Class == "del" {
				g.Columns = columns
				l.Remarks = append(l.Remarks, g)
			}
		}
	}
}

// given returns the remarks that people made in a task.
func (s *Server) given(ctx context.Context, tl view.Timeline) (list []given, err error) {
	for _, lane := range tl.Lanes {
		for _, m := range lane.Marks {
			if m.Kind != view.MarkInput {
				continue
			}
			g, err := s.givenIn(ctx, lane.Thread, m.Step)
			if err != nil {
				return nil, err
			}
			if g.Path != "" {
				list = append(list, g)
			}
		}
	}
	return list, nil
}

// givenIn returns the remark that a step of a thread is; its Path is "" if it is none.
func (s *Server) givenIn(ctx context.Context, in string, step dag.Hash) (g given, err error) {
	state, err := s.cfg.Reader.State(ctx, step)
	if err != nil {
		return g, err
	}
	about, is, err := thread.CommentOf(state)
	if !is || err != nil {
		return g, nil // verify reports what is wrong with it
	}
	said, err := s.cfg.Reader.Text(ctx, state.Content)
	if err != nil {
		return g, err
	}
	detail, err := s.cfg.Reader.Detail(ctx, state.Detail)
	if err != nil {
		return g, err
	}
	g = given{Path: about.File, Tree: about.Tree, From: about.Line, To: about.EndLine, Link: "/steps/" + step.String() + "?thread=" + in}
	if detail != nil && detail.By != nil {
		g.By = *detail.By
	}
	for l := range strings.Lines(said) { // without the lines that it quotes
		if len(g.Text) > 0 || !strings.HasPrefix(l, ">") && !strings.HasPrefix(l, "About ") && l != "\n" {
			g.Text += l
		}
	}
	return g, nil
}
