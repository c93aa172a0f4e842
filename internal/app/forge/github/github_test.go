package github

import (
	"errors"
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
	s.Limited = true
	var limit *forge.LimitError
	if _, err := f.Issue(t.Context(), 7); !errors.As(err, &limit) || limit.Until.Year() < 3000 {
		t.Errorf("rate limit: %v", err)
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
