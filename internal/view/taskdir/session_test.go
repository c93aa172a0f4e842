package taskdir

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
)

// TestSessionByHand checks that session.json records where a session is stored and the turn that it was
// branched off from, for as long as that session continues.
func TestSessionByHand(t *testing.T) {
	w := newWorld(t)
	turn := &VendorTurn{"origin", "turn-2"}
	for i, tt := range []struct {
		begins agent.Vendor
		ends   string
		want   *VendorTurn
	}{
		{agent.Vendor{Home: "/h/codex", From: "origin", Turn: "turn-2"}, "branch", turn},
		{agent.Vendor{Home: "/h/codex", Session: "branch"}, "branch", turn},
		{agent.Vendor{Home: "/h/codex"}, "fresh", nil},
	} {
		desk, err := openDesk(w.dir, "plan", w.attempt(i+1).ID, tt.begins)
		if err != nil {
			t.Fatal(err)
		}
		if err := desk.Close(tt.ends); err != nil {
			t.Fatal(err)
		}
		var s Session
		if err := json.Unmarshal([]byte(w.file("agents/plan/session.json")), &s); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, s.VendorFrom); diff != "" || s.Home != "/h/codex" || s.Vendor != tt.ends {
			t.Errorf("attempt %d: %+v\n%s", i+1, s, diff)
		}
	}
}
