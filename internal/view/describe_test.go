package view

import (
	"testing"

	"github.com/plait-run/plait/internal/agent"
)

func TestPlainCommand(t *testing.T) {
	for text, want := range map[string]string{
		"/bin/bash -lc 'ls -l'":               "ls -l",
		"bash -c ls":                          "ls",
		"/usr/bin/bash -lc \"go test ./...\"": "go test ./...",
		`/bin/sh -c 'echo '\''a'\'''`:         "echo 'a'",
		"bashful -c x":                        "bashful -c x",
	} {
		if got := onOneLine(agent.Event{Kind: agent.EventCommand, Text: text}); got != want {
			t.Errorf("plainDeed(%q) = %q, want %q", text, got, want)
		}
	}
}
