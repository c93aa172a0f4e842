package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The limits of a worker's agents have defaults, and only its own file changes them.
func TestTeamLimits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	read := func(text string, own bool) (Limits, error) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files := []string{file, ""}
		if !own {
			files = []string{"", file}
		}
		s, err := Load(files[0], files[1], func(string) string { return "" })
		if err != nil {
			return Limits{}, err
		}
		return s.Team.V.Limits, nil
	}
	for text, want := range map[string]Limits{
		"":                                 {4096, 8, 10},
		"team: {maxGB: 3}":                 {4096, 8, 10},
		"team: {limits: {processes: 100}}": {100, 8, 10},
		"team: {limits: {fileGB: 0}}":      {4096, 8, 0},
		"team: {limits: {memoryGB: 4}}":    {4096, 4, 10},
		"team: {limits: {processes: 0x10, fileGB: 1}}": {16, 8, 1},
	} {
		if got, err := read(text, true); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"team: {limits: {memory: 1}}":              "team.limits must be",
		"team: {limits: {processes: -1}}":          "team.limits must be",
		"team: {limits: {fileGB: 99999999999999}}": "team.limits must be",
		"team: {limits: 3}":                        "team.limits must be",
		"team: {limits: {processes: many}}":        "team.limits must be",
	} {
		if _, err := read(text, true); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := read("team: {limits: {processes: 0}}", false); err == nil || !strings.Contains(err.Error(), "NOT_HERE") {
		t.Errorf("of a project: %v", err)
	}
}
