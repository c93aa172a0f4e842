package cli

import (
	"unicode/utf8"
)

// inert reports whether a terminal would only show s.
func inert(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t':
		case r < 0x20, r >= 0x7f && r <= 0x9f,
			r == 0x061c, r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f,
			r == 0xfeff, r >= 0xe0000 && r <= 0xe0fff:
			return false
		}
	}
	return true
}
