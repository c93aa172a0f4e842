package thread

import "testing"

func TestRouted(t *testing.T) {
	for role, want := range map[string]bool{"work": true, "__": true, "____": true, RoleJoin: true,
		RoleEnd: false, RoleInput: false, RoleCompact: false, "__later__": false} {
		if got := Routed(role); got != want {
			t.Errorf("Routed(%q) = %t", role, got)
		}
	}
}
