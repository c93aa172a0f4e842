package forgetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plait-run/plait/internal/app/forge"
)

// Run checks the promises of a forge. open returns the repository of a server as one, with a token; logs reports
// whether it has the logs of checks, and the lines that they name.
func Run(t *testing.T, s *Server, logs bool, open func(token string) forge.Forge) {
	f, ctx := open(Token), t.Context()
	s.Commit("main", "begin")
	first := s.Commit("plait/k7f2", "one")
	t.Run("issue", func(t *testing.T) {
		s.Change(func(d *Data) {
			d.Issues[7] = &Issue{Title: "Wrong", Body: "It is wrong.", By: "bob", Labels: []string{"bug"}, Said: []*Comment{
				{ID: d.ID(), By: "eve", As: "NONE", Body: "Indeed."}}}
		})
		got, err := f.Issue(ctx, 7)
		if err != nil {
			t.Fatal(err)
		}
		want := forge.Issue{Number: 7, Title: "Wrong", Body: "It is wrong.", Author: "bob", Labels: []string{"bug"},
			Comments: []forge.Comment{{Author: "eve", Body: "Indeed."}}}
		if d := cmp.Diff(want, got, cmpopts.IgnoreFields(forge.Issue{}, "URL"),
			cmpopts.IgnoreFields(forge.Comment{}, "ID", "URL")); d != "" {
			t.Error(d)
		}
		if _, err := f.Issue(ctx, 8); !errors.Is(err, forge.ErrUnknown) {
			t.Errorf("an issue that is not there: %v", err)
		}
	})
	if who, err := f.Me(ctx); err != nil || who != Me {
		t.Errorf("the token is of %q: %v", who, err)
	}
	t.Run("request", func(t *testing.T) { request(t, s, f, first) })
	t.Run("comments", func(t *testing.T) { comments(t, s, f) })
	t.Run("checks", func(t *testing.T) { checks(t, s, f, first, logs) })
	t.Run("token", func(t *testing.T) {
		if _, err := open("wrong").Issue(ctx, 7); err == nil || strings.Contains(err.Error(), "wrong") {
			t.Errorf("a wrong token: %v", err)
		}
	})
}

func request(t *testing.T, s *Server, f forge.Forge, head string) {
	ctx := t.Context()
	if _, err := f.Request(ctx, "plait/k7f2"); !errors.Is(err, forge.ErrUnknown) {
		t.Fatalf("no request: %v", err)
	}
	made, err := f.Create(ctx, forge.Draft{Branch: "plait/k7f2", Title: "One", Body: "first"})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Update(ctx, made.Number, "Two", "second"); err != nil {
		t.Fatal(err)
	}
	got, err := f.Request(ctx, "plait/k7f2")
	if err != nil {
		t.Fatal(err)
	}
	want := forge.Request{Number: made.Number, URL: made.URL, State: forge.Open, Draft: true, Head: head, Title: "Two",
		Body: "second"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for state, change := range map[string]func(r *Request){
		forge.Closed: func(r *Request) { r.Shut = true }, forge.Merged: func(r *Request) { r.Fused = true }} {
		var was Request
		s.Change(func(d *Data) { was = *d.Requests[0]; change(d.Requests[0]) })
		if got, err := f.Request(ctx, "plait/k7f2"); err != nil || got.State != state {
			t.Errorf("%s: %+v, %v", state, got, err)
		}
		s.Change(func(d *Data) { *d.Requests[0] = was })
	}
}

func comments(t *testing.T, s *Server, f forge.Forge) {
	ctx := t.Context()
	s.Change(func(d *Data) {
		d.Requests[0].Said = []*Comment{
			{ID: d.ID(), By: "bob", As: "MEMBER", Body: "whole"},
			{ID: d.ID(), By: "eve", As: "CONTRIBUTOR", Body: "review", Review: true},
			{ID: d.ID(), By: "ann", As: "OWNER", Body: "not sent", Review: true, Pending: true},
			{ID: d.ID(), By: "joe", As: "COLLABORATOR", Body: "line", File: "a.txt", Line: 3, Commit: "abc"},
			{ID: d.ID(), By: "eve", As: "NONE", Body: "more", File: "a.txt", Line: 3, Commit: "abc"}}
		d.Requests[0].Said[4].InReplyTo = d.Requests[0].Said[3].ID
		for range 60 {
			d.Requests[0].Said = append(d.Requests[0].Said, &Comment{ID: d.ID(), By: "eve", As: "NONE", Body: "spam"})
		}
	})
	n := s.Requests[0].Number
	got, err := f.Comments(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 64 {
		t.Errorf("got %d comments", len(got))
	}
	for _, c := range got {
		if c.Body == "spam" {
			continue
		}
		if err := f.Reply(ctx, n, c, "to "+c.Body); err != nil {
			t.Errorf("reply to %s: %v", c.Body, err)
		}
	}
	got, err = f.Comments(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	said, ids := map[string]string{}, map[string]bool{}
	for _, c := range got {
		first, _, _ := strings.Cut(c.Body, "\n") // a forge without threads may add a link
		said[first] = fmt.Sprintf("%s %t %t %s:%d", c.Author, c.Writes, c.Mine, c.File, c.Line)
		ids[c.ID] = true
	}
	for body, want := range map[string]string{"whole": "bob true false :0", "review": "eve false false :0",
		"line": "joe true false a.txt:3", "to whole": "ann true true :0"} {
		if said[body] != want {
			t.Errorf("%s: got %q, want %q", body, said[body], want)
		}
	}
	if len(ids) != 68 || len(got) != 68 || said["to line"] == "" || said["to review"] == "" || said["to more"] == "" {
		t.Errorf("got %d, %v", len(got), said)
	}
	s.Change(func(d *Data) { d.Broken = 1 })
	_, err = f.Comments(ctx, n)
	if _, later := forge.Later(err); err == nil || !later {
		t.Errorf("a server that is broken: %v", err)
	}
}

func checks(t *testing.T, s *Server, f forge.Forge, head string, logs bool) {
	long := strings.Repeat("noise\n", 4<<10) + "the end"
	s.Change(func(d *Data) {
		d.Checks[head] = []*Check{{ID: d.ID(), Name: "lint", State: "success"}, {ID: d.ID(), Name: "race", State: "queued"},
			{ID: d.ID(), Name: "test", State: "failure", Log: long, File: "a.txt", Line: 2}}
	})
	got, err := f.Checks(t.Context(), head)
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for _, c := range got {
		states[c.Name] = c.State
		if c.State == forge.Failed && (logs && (c.File != "a.txt" || c.Line != 2) || !strings.HasSuffix(c.Log, "the end") ||
			len(c.Log) > 2*forge.MaxLog) {
			t.Errorf("got %s:%d and %d bytes", c.File, c.Line, len(c.Log))
		}
	}
	want := map[string]string{"lint": forge.Passed, "race": forge.Pending, "test": forge.Failed}
	if d := cmp.Diff(want, states); d != "" {
		t.Error(d)
	}
}

// Commit pushes a commit to a branch of the repository, which begins one if there is none, and returns it.
func (s *Server) Commit(branch, file string) string {
	s.t.Helper()
	dir := s.t.TempDir()
	s.git("", "clone", "-q", s.Dir, dir)
	if s.Head(branch) == "" {
		s.git(dir, "checkout", "-q", "-b", branch)
	} else {
		s.git(dir, "checkout", "-q", branch)
	}
	s.git(dir, "-c", "user.name=Bob", "-c", "user.email=bob@example.com", "commit", "-q", "--allow-empty", "-m", file)
	s.git(dir, "push", "-q", "origin", "HEAD:refs/heads/"+branch)
	return s.Head(branch)
}
