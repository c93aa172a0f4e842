package acp

import (
	"os"
	"testing"
)

// TestAgents tests each known agent for real. It is for `make agents`: they are large, and slow.
func TestAgents(t *testing.T) {
	if os.Getenv("PLAIT_AGENTS") == "" {
		t.Skip("NOT TESTED: the agents of make agents")
	}
	for _, k := range Kinds {
		t.Run(k.Name, func(t *testing.T) {
			need(t, k.Name)
			if len(k.Routes) == 0 {
				t.Skipf("NOT TESTED: %s cannot be pointed at a scripted model", k.Title)
			}
			t.Run("Turn", func(t *testing.T) { testTurn(t, k.Name) })
			t.Run("Asks", func(t *testing.T) { testAsks(t, k.Name) })
			t.Run("Cancelled", func(t *testing.T) { testCancelled(t, k.Name) })
			t.Run("Delivers", func(t *testing.T) { testDelivers(t, k.Name) })
			t.Run("Conforms", func(t *testing.T) { conforms(t, k.Name) })
		})
	}
}
