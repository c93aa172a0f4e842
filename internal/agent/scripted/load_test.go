package scripted

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadErrors(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", "x.yaml: it is empty"},
		{"no YAML", "a: [", "x.yaml:"},
		{"not a mapping", "- a", `x.yaml:1: want keys and values: about, turns`},
		{"unknown key", "about: x\nturn: []", `x.yaml:2: unknown key "turn"; known are about, turns`},
		{"key twice", "about: x\nabout: y", "x.yaml:2: duplicate key about"},
		{"no turns", "about: x", "x.yaml:1: turns are missing"},
		{"no steps", "turns:\n- when: {nth: 1}", "x.yaml:2: steps are missing"},
		{"two documents", "turns: [{steps: [{silent: true}]}]\n---\na: b", "a second document begins here"},
		{"unknown when", "turns:\n- when: {like: [x]}\n  steps: []",
			`x.yaml:2: unknown key "like"; known are contains, context, nth, schema`},
		{"another number in YAML 1.1", "turns:\n- when: {nth: 010}\n  steps: []", "x.yaml:2: want a whole number from 1"},
		{"nth 0", "turns:\n- when: {nth: 0}\n  steps: []", "x.yaml:2: want a whole number from 1"},
		{"unknown item", "turns:\n- steps:\n  - items:\n    - shout: x",
			`x.yaml:4: unknown key "shout"; known are answer, call, patch, reason, run, say, wait`},
		{"two in an item", "turns:\n- steps:\n  - items:\n    - say: x\n      run: y", "x.yaml:4: an item is one key"},
		{"never reached", "turns:\n- steps:\n  - items: [{say: x}]\n  - items: [{say: y}]",
			"x.yaml:2: step 1 calls no tool"},
		{"nothing after a call", "turns:\n- steps:\n  - items: [{run: x}]", "x.yaml:2: step 1 calls a tool, so"},
		{"an empty step", "turns:\n- steps:\n  - slow: 1s", "x.yaml:3: a step needs items"},
		{"two faults", "turns:\n- steps:\n  - silent: true\n    cut: true\n    items: [{say: x}]",
			"x.yaml:3: only one of"},
		{"cut nothing", "turns:\n- steps:\n  - cut: true", "x.yaml:3: cut needs items"},
		{"times nothing", "turns:\n- steps:\n  - fail: {times: 1}", "x.yaml:3: times needs items"},
		{"status", "turns:\n- steps:\n  - fail: {status: 200}", "x.yaml:3: want a whole number from 400 to 599"},
		{"header", "turns:\n- steps:\n  - fail: {headers: {\"a b\": c}}", `x.yaml:3: "a b" is no header`},
		{"duration", "turns:\n- steps:\n  - slow: soon\n    silent: true", "x.yaml:3: want a duration"},
		{"run nothing", "turns:\n- steps:\n  - items: [{run: {workdir: x}}]", "x.yaml:3: a command is missing"},
		{"call nothing", "turns:\n- steps:\n  - items: [{call: {namespace: x}}]",
			"x.yaml:3: the name of the tool is missing"},
		{"text wanted", "turns:\n- steps:\n  - items: [{say: [a]}]", "x.yaml:3: want a text"},
		{"null text", "turns:\n- steps:\n  - items:\n    - say:", "x.yaml:4: want a text"},
		{"answer of nothing", "turns:\n- steps:\n  - items: [{answer: {text: x}}]",
			"x.yaml:3: want a text, json: {…} or auto: true"},
		{"json and auto", "turns:\n- steps:\n  - items: [{answer: {auto: true, json: {}}}]",
			"x.yaml:3: json stands alone"},
		{"json null", "turns:\n- steps:\n  - items: [{answer: {json: null}}]", "x.yaml:3: json: null"},
		{"no JSON number", "turns:\n- steps:\n  - items: [{answer: {json: {a: .inf}}}]",
			`x.yaml:3: "a": number .inf cannot be kept exactly`},
		{"alias", "about: &a x\nturns:\n- steps:\n  - items: [{answer: {json: {a: *a}}}]", "x.yaml:4: references"},
		{"boolean", "turns:\n- when: {schema: maybe}\n  steps: []", "x.yaml:2: want true or false"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parse("x", "x.yaml", []byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) ||
				!strings.HasPrefix(err.Error(), "read scenario x.yaml") {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.yaml")
	if err := os.WriteFile(file, []byte("about: mine\nturns: [{steps: [{silent: true}]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	sc, err := Load(file)
	if err != nil || sc.About != "mine" || sc.name != file {
		t.Errorf("%+v, %v", sc, err)
	}
	if _, err := Load("nosuch"); err == nil || !strings.Contains(err.Error(), `"nosuch"`) ||
		!strings.Contains(err.Error(), "approve, big,") {
		t.Errorf("unknown name: %v", err)
	}
	if _, err := Load("nosuch.yml"); err == nil || !strings.Contains(err.Error(), "nosuch.yml") {
		t.Errorf("missing file: %v", err)
	}
	if err := os.WriteFile(file, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), "over 1 MiB") {
		t.Errorf("a large file: %v", err)
	}
}
