package view

import (
	"strings"
	"testing"
)

func TestDiffTexts(t *testing.T) {
	long := strings.Repeat("x", diffTextMax+1)
	lines := strings.Repeat("line\n", diffMax/2)
	for _, tt := range []struct {
		name, a, b string
		cut        bool
	}{
		{"one line", "a\n", "b\n", false}, {"too long to compare", long, "b", true},
		{"a long difference", "", lines, true}, {"one line of many bytes", "a", strings.Repeat("ü", diffMax), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, cut := diffTexts(tt.a, tt.b)
			if cut != tt.cut || len(text) == 0 || len(text) > diffMax || !strings.HasPrefix(text, "@@") {
				t.Errorf("%d bytes, cut %t: %.60q", len(text), cut, text)
			}
		})
	}
	if text, cut := diffTexts("same", "same"); text != "" || cut {
		t.Errorf("equal texts differ: %q", text)
	}
}
