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
}
