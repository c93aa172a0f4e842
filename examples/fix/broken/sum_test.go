package sum

import "testing"

func TestOf(t *testing.T) {
	if got := Of(1, 2, 3); got != 6 {
		t.Errorf("Of(1, 2, 3) = %d, want 6", got)
	}
}
