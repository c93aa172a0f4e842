package flow_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
)

func TestCitations(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"nothing", nil},
		{"see evidence:cmd-1.", []string{"cmd-1"}},
		{"see evidence:look.cmd-1. And evidence:look.cmd-1, evidence:two", []string{"look.cmd-1", "two"}},
		{"(evidence:a.b.c)", []string{"a.b"}},
		{"evidence: cmd-1, evidence:-x, evidence:.x, Evidence:x", nil},
		{"evidence:cmd-1/../../x", []string{"cmd-1"}},
		{"evidence:CMD", nil},
		{"evidence:a\nevidence:b", []string{"a", "b"}},
	} {
		if diff := cmp.Diff(tt.want, flow.Citations(tt.text)); diff != "" {
			t.Errorf("%q: -want +got\n%s", tt.text, diff)
		}
	}
}

func FuzzCitations(f *testing.F) {
	for _, s := range []string{"evidence:a", "evidence:a.b.", "evidence:evidence:x", "\xffevidence:0-.a", "evidence:a..b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		seen := map[string]bool{}
		for _, id := range flow.Citations(text) {
			if seen[id] || !strings.Contains(text, "evidence:"+id) {
				t.Errorf("%q cites %q twice, or not at all", text, id)
			}
			seen[id] = true
			if again := flow.Citations("x evidence:" + id + ". Y"); len(again) != 1 || again[0] != id {
				t.Errorf("%q is read back as %q", id, again)
			}
		}
	})
}
