package gitea

import (
	"testing"

	"github.com/plait-run/plait/internal/app/forge"
	"github.com/plait-run/plait/internal/testing/forgetest"
)

func TestForge(t *testing.T) {
	s := forgetest.New(t)
	forgetest.Run(t, s, false, func(token string) forge.Forge {
		f, err := New(s.Place(), forge.Access{API: s.GiteaAPI(), Token: token})
		if err != nil {
			t.Fatal(err)
		}
		return f
	})
	f, err := New(s.Place(), forge.Access{API: s.GiteaAPI(), Token: forgetest.Token})
	if err != nil {
		t.Fatal(err)
	}
	s.Plain = true
	got, err := f.Comments(t.Context(), s.Requests[0].Number)
	if err != nil || len(got) == 0 {
		t.Fatalf("not an administrator: %d comments, %v", len(got), err)
	}
	for _, c := range got {
		if c.Writes != c.Mine {
			t.Errorf("%s may write: %t", c.Author, c.Writes)
		}
	}
}
