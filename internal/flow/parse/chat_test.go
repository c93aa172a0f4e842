package parse_test

import (
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
)

// A chat role is never routed: the person's next input decides what follows.
func TestChat(t *testing.T) {
	d, ok := parse.BuiltIn(flow.ChatFlow)
	if !ok || !d.Roles["assistant"].Chat || d.Roles["assistant"].Access != "write" {
		t.Fatalf("%+v", d)
	}
	for name, tt := range map[string]struct {
		def, says string
		at        string // of the problem, "" for none
	}{
		"as it should be":   {"  a: {chat: true}", "", ""},
		"reads frontmatter": {"  a: {chat: true, frontmatter: {type: object}}", "it cannot have frontmatter", "4:"},
		"calls a flow":      {"  a: {chat: true, flow: other}", "it cannot have flow", "4:"},
		"plans":             {"  a: {chat: true, plan: true}", "it cannot have plan", "4:"},
		"no yes or no":      {"  a: {chat: 3}", "", "4:"},
	} {
		_, problems := parse.Parse(nil, "f.yaml",
			[]byte("version: 1\nname: f\nroles:\n"+tt.def+"\ngraph:\n  $START: {new: {role: a, prompt: p}}\n"))
		if tt.at == "" {
			if flow.Failed(problems) {
				t.Errorf("%s: %v", name, problems)
			}
			continue
		}
		var all strings.Builder
		for _, p := range problems {
			all.WriteString(p.String() + "\n")
		}
		if !flow.Failed(problems) || !strings.Contains(all.String(), "f.yaml:"+tt.at) || tt.says != "" &&
			!strings.Contains(all.String(), "BAD_CHAT") || !strings.Contains(all.String(), tt.says) {
			t.Errorf("%s: %s", name, all.String())
		}
	}
	for name, routes := range map[string]string{
		"to another role": "  a: {done: {role: $END}}",
		"on its own word": "  a: {more: {role: a, prompt: p}}",
	} {
		_, problems := parse.Parse(nil, "f.yaml",
			[]byte("version: 1\nname: f\nroles:\n  a: {chat: true}\ngraph:\n  $START: {new: {role: a, prompt: p}}\n"+
				routes+"\n"))
		if !flow.Failed(problems) || !strings.Contains(problems[0].String(), "BAD_CHAT") ||
			!strings.Contains(problems[0].String(), "f.yaml:7:") {
			t.Errorf("%s: %v", name, problems)
		}
	}
}
