package config

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
)

func TestKeys(t *testing.T) {
	for _, tt := range []struct {
		text string
		want map[string][]string
		bad  string
	}{
		{"{A_KEY: {command: [pass, show, a]}, b: {command: [/bin/key]}}",
			map[string][]string{"A_KEY": {"pass", "show", "a"}, "b": {"/bin/key"}}, ""},
		{"{A_KEY: sk-1234}", nil, "keys.A_KEY must be {command: [PROGRAM, …]}: the key itself has no place in a file"},
		{"{A_KEY: {value: sk-1234}}", nil, "the key itself has no place in a file"},
		{"{A_KEY: {command: pass show a}}", nil, "keys.A_KEY.command must be a list"},
		{"{A_KEY: {command: [bin/key]}}", nil, "keys.A_KEY.command must be a list"},
		{"{A_KEY: {command: []}}", nil, "keys.A_KEY.command must be a list"},
		{"{'A KEY': {command: [x]}}", nil, `"A KEY" is not the name of a variable`},
		{"[x]", nil, "keys must be a mapping"},
	} {
		file := write(t, filepath.Join(t.TempDir(), "c.yaml"), "keys: "+tt.text+"\n")
		s, err := Load(file, "/nowhere", none)
		if tt.bad != "" {
			if err == nil || !strings.Contains(err.Error(), tt.bad) || strings.Contains(err.Error(), "sk-1234") {
				t.Errorf("%s: got %v, want %s", tt.text, err, tt.bad)
			}
			continue
		}
		if err != nil || !cmp.Equal(s.Keys.V, tt.want) {
			t.Errorf("%s: got %v, %v", tt.text, s.Keys.V, err)
			continue
		}
		for _, o := range s.Origins() {
			if o.Key == "keys.A_KEY" && o.Value != `command "pass"` {
				t.Errorf("it is shown as %q", o.Value)
			}
		}
	}
}

// A project may be written by agents.
func TestKeysOfAProjectAreRefused(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"), "keys: {A: {command: [x]}}\n")
	_, err := Load("/nowhere", file, none)
	var bad *flow.InvalidError
	if !errors.As(err, &bad) || len(bad.Problems) != 1 || bad.Problems[0].Code != "NOT_HERE" {
		t.Errorf("got %v", err)
	}
}
