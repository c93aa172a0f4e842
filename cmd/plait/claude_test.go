package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/plait-run/plait/internal/claude"
)

// realClaude is the real Claude Code, found once with the environment of whoever runs the tests.
var realClaude = sync.OnceValues(func() (claude.Program, error) {
	return claude.NewHost(claude.HostConfig{Getenv: os.Getenv}).Find(context.Background(), "")
})

// needClaude is the condition [claude]. Where nothing may be skipped it fails when the program is not there.
func needClaude() (bool, error) {
	_, err := realClaude()
	if errors.Is(err, claude.ErrMissing) && os.Getenv("CI") == "" {
		fmt.Fprintln(os.Stderr, "NO REAL CLAUDE CODE, SO ITS STORIES ARE SKIPPED:", err)
		return false, nil
	}
	return err == nil, err
}
