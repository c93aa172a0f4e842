package attempt

import (
	"encoding/json"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
)

// The second row is of a release that did not have the field.
func TestNotBegun(t *testing.T) {
	for row, want := range map[string]bool{
		`{"kind":"interrupted","message":"m","resetAt":0,"notBegun":true}`:                       true,
		`{"kind":"interrupted","message":"stopped before it began","resetAt":0}`:                 true,
		`{"kind":"interrupted","message":"Plait ended while the agent was at work","resetAt":0}`: false,
	} {
		var f store.Failure
		if err := json.Unmarshal([]byte(row), &f); err != nil || NotBegun(f) != want {
			t.Errorf("%s: %t, want %t: %v", row, NotBegun(f), want, err)
		}
	}
}
