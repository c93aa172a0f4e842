package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhoAnswers checks that only the user's own file sets who answers through plait mcp, and that no file lets a
// model approve.
func TestWhoAnswers(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"mcp: {questions: model, approvals: person}": "",
		"mcp: {}":                     "",
		"mcp: {approvals: model}":     "mcp.approvals must be one of",
		"mcp: {questions: everybody}": "mcp.questions must be one of",
		"mcp: {answers: person}":      `unknown key "answers"`,
		"mcp: person":                 "must be a mapping",
		"mcp: {approvals: [person]}":  "mcp.approvals must be one of",
	} {
		for _, own := range []bool{true, false} {
			file := filepath.Join(dir, "config.yaml")
			if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			user, project, expect := file, filepath.Join(dir, "none"), want
			if !own {
				user, project, expect = project, file, "belongs to your own configuration"
			}
			s, err := Load(user, project, func(string) string { return "" })
			switch {
			case expect == "" && err != nil, expect != "" && (err == nil || !strings.Contains(err.Error(), expect)):
				t.Errorf("%s, own %t: %v, want %q", text, own, err, expect)
			case err == nil && text != "mcp: {}" && s.MCP.V != Answering{ByModel, ByPerson}:
				t.Errorf("%s: %+v", text, s.MCP.V)
			}
		}
	}
}

// TestWhoSigns checks that only the user's own file can demand signatures, and only of a known kind.
func TestWhoSigns(t *testing.T) {
	dir := t.TempDir()
	file, none := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "none")
	for text, want := range map[string]string{
		"approvals: {sign: ssh}":          "",
		"approvals: {sign: gpg}":          "must be {sign: ssh}",
		"approvals: {}":                   "must be {sign: ssh}",
		"approvals: ssh":                  "must be {sign: ssh}",
		"approvals: {sign: [ssh]}":        "must be {sign: ssh}",
		"approvals: {sign: ssh, by: ann}": "must be {sign: ssh}",
	} {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		nothing := func(string) string { return "" }
		s, err := Load(file, none, nothing)
		switch {
		case want == "" && (err != nil || s.Sign.V != SignSSH),
			want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if _, err := Load(none, file, nothing); err == nil || !strings.Contains(err.Error(), "belongs to your own") {
			t.Errorf("%s, in a project: %v", text, err)
		}
	}
}

// TestRetention checks that only the user's own file says how long tasks are kept.
func TestRetention(t *testing.T) {
	dir := t.TempDir()
	file, none := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "none")
	for text, want := range map[string]string{
		"retention: {days: 30}":           "",
		"retention: {days: 0}":            "must be {days: N}",
		"retention: {days: '30'}":         "must be {days: N}",
		"retention: 30":                   "must be {days: N}",
		"retention: {days: 30, hours: 1}": "must be {days: N}",
	} {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		nothing := func(string) string { return "" }
		s, err := Load(file, none, nothing)
		switch {
		case want == "" && (err != nil || s.Retention.V != 30),
			want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if _, err := Load(none, file, nothing); err == nil || !strings.Contains(err.Error(), "belongs to your own") {
			t.Errorf("%s, in a project: %v", text, err)
		}
	}
}
