package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/store"
)

func TestParseOrder(t *testing.T) {
	for line, want := range map[string]struct {
		order
		ok bool
	}{
		"":               {order{}, true},
		"  ":             {order{}, true},
		"3":              {order{n: 3}, true},
		"3 a":            {order{3, "approve", ""}, true},
		"a":              {order{0, "approve", ""}, true},
		"A":              {order{0, "approve", ""}, true},
		" 2 deny ":       {order{2, "deny", ""}, true},
		"m looks good":   {order{0, "message", "looks good"}, true},
		"2 m a":          {order{2, "message", "a"}, true},
		"m":              {order{0, "message", ""}, true},
		"A looks good":   {order{0, "approve", "looks good"}, false},
		"a test first":   {order{0, "approve", "test first"}, false},
		"2 d not now":    {order{2, "deny", "not now"}, false},
		"approve it not": {order{0, "approve", "it not"}, false},
		"answer a 3":     {order{0, "answer", "a 3"}, true},
		"1 answer  blue": {order{1, "answer", "blue"}, true},
		"q":              {order{0, "quit", ""}, true},
		"?":              {order{0, "help", ""}, true},
		"quit it":        {order{0, "quit", "it"}, false},
		"blue":           {order{}, false},
		"0":              {order{}, false},
		"-1 a":           {order{text: "a"}, false},
		"yes":            {order{}, false},
		"approve-all":    {order{}, false},
	} {
		got, ok := parseOrder(line)
		if ok != want.ok || ok && got != want.order {
			t.Errorf("%q is %+v, %v, want %+v, %v", line, got, ok, want.order, want.ok)
		}
	}
}

func FuzzParseOrder(f *testing.F) {
	f.Add("1 a because")
	f.Fuzz(func(t *testing.T, line string) {
		o, ok := parseOrder(line)
		words := strings.Fields(strings.ToLower(line))
		if o.n > 0 {
			words = words[1:]
		}
		if ok && (o.verb == "approve" || o.verb == "deny") && (len(words) != 1 || verbs[words[0]] != o.verb) {
			t.Errorf("%q is %s", line, o.verb)
		}
	})
}

func TestWhatAGateAsks(t *testing.T) {
	diff, err := json.Marshal("--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n-a\n+b\n+c\n--- a/y\n+++ b/y\x1b[2J\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		g    store.Gate
		want []string
	}{
		"a command":   {store.Gate{Kind: store.GateApproval, Question: "May I?", Action: []byte(`{"type":"command","command":"make\nrm -rf"}`)}, []string{"May I?", "command: make …"}},
		"a diff":      {store.Gate{Kind: store.GateApproval, Action: []byte(`{"type":"file_change","diff":` + string(diff) + `}`)}, []string{`diff: +2 -1 lines in x, y\x1b[2J`}},
		"a tool":      {store.Gate{Kind: store.GateApproval, Action: []byte(`{"type":"tool_call","tool":"web"}`)}, []string{"tool: web"}},
		"only a name": {store.Gate{Kind: store.GateApproval, Action: []byte(`{"type":"attempt"}`)}, []string{"attempt"}},
		"a question":  {store.Gate{Kind: store.GateInput, Question: "Which?", Options: []string{"a", "b"}}, []string{"Which?", "- a", "- b"}},
	} {
		if diff := cmp.Diff(tt.want, asks(tt.g, 60)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}
