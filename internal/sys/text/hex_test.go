package text

import "testing"

func TestIsHex(t *testing.T) {
	for s, want := range map[string]bool{
		"0af9": true, "0af": true, "0": false, "": false, "0af90": false, "0aF": false, "0ag": false, "0a\n": false,
		"/:a": false, "`aa": false,
	} {
		if IsHex(s, 2, 4) != want {
			t.Errorf("%q: %t, want %t", s, !want, want)
		}
	}
}
