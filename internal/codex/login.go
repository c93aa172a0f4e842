package codex

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/proc"
)

// A Login says how Codex reaches its model.
type Login struct {
	OK   bool
	Text string // in Codex's own words, or ours
}

// Login asks a program whether its user is logged in. A key in CODEX_API_KEY, or
// in the variable that the user's model provider names, is as good.
func (h *Host) Login(ctx context.Context, p Program) (Login, error) {
	user := userHome(h.cfg.Getenv)
	mine, err := userSettings(user)
	if err != nil {
		return Login{}, err
	}
	for _, name := range append([]string{"CODEX_API_KEY"}, keyNames(mine)...) {
		if h.cfg.Getenv(name) != "" {
			return Login{true, "by the key in " + name}, nil
		}
	}
	var out bytes.Buffer
	res, err := proc.Run(ctx, proc.Config{
		Path: p.Path, Args: []string{"login", "status"}, Dir: string(filepath.Separator),
		Env: proc.Environ(nil, map[string]string{"CODEX_HOME": user}, nil, ""), Stdout: &out, Stderr: &out,
		Wall: 30 * time.Second, MaxBytes: 64 << 10,
	})
	if err != nil {
		return Login{}, fmt.Errorf("ask Codex for its login: %w", err)
	}
	said, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
	return Login{res.Exit == 0, said}, nil
}
