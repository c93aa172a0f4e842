package github

import (
	"errors"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/app/forge"
	"github.com/plait-run/plait/internal/testing/forgetest"
)

func TestForge(t *testing.T) {
	s := forgetest.New(t)
	open := func(token string) forge.Forge {
		h, err := New(s.Place(), forge.Access{API: s.Access().API, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	forgetest.Run(t, s, true, open)
	f := open(forgetest.Token)
	if _, err := f.Issue(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	head := s.Head("plait/k7f2")
	for _, state := range []string{"cancelled", "stale", "action_required"} {
		s.Change(func(d *forgetest.Data) { d.Checks[head] = []*forgetest.Check{{ID: d.ID(), State: state}} })
		if got, err := f.Checks(t.Context(), head); err != nil || got[0].State != forge.Pending {
			t.Errorf("%s: %+v, %v", state, got, err)
		}
	}
	s.Limited = true
	var limit *forge.LimitError
	if _, err := f.Issue(t.Context(), 7); !errors.As(err, &limit) || limit.Until.Year() < 3000 {
		t.Errorf("rate limit: %v", err)
	}
}

// TestApp knows the token of a job of GitHub Actions, and takes no other one for it.
func TestApp(t *testing.T) {
	s := forgetest.New(t)
	s.App = true
	s.Requests = []*forgetest.Request{{Number: 1}}
	open := func(ci string) *Hub {
		t.Setenv("GITHUB_ACTIONS", ci)
		h, err := New(s.Place(), s.Access())
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if who, err := open("").Me(t.Context()); err == nil {
		t.Errorf("taken for %s", who)
	}
	s.Limited = true
	if who, err := open("true").Me(t.Context()); !errors.As(err, new(*forge.LimitError)) {
		t.Errorf("at the rate limit: taken for %s, %v", who, err)
	}
	h := open("true")
	if who, err := h.Me(t.Context()); err != nil || who != "github-actions[bot]" {
		t.Errorf("got %s, %v", who, err)
	}
	if err := h.Reply(t.Context(), 1, forge.Comment{}, "done"); err == nil || !strings.Contains(err.Error(), "by ann") {
		t.Errorf("a reply by somebody else: %v", err)
	}
}

// TestAccess sends tokens over https only.
func TestAccess(t *testing.T) {
	for _, api := range []string{"http://example.com/", "ftp://example.com/", "https://a:b@example.com/",
		"https:///", "x"} {
		if _, err := New(forge.Place{}, forge.Access{API: api, Token: "t"}); err == nil {
			t.Errorf("%s: accepted", api)
		}
	}
}
