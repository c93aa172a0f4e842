package codex

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/plait-run/plait/internal/agent"
)

var (
	_ agent.Instructed = (*Agent)(nil)
	_ agent.Instructed = (*ExecAgent)(nil)
)

// maxGlobal limits the user's instructions, in bytes.
const maxGlobal = 32 << 10

// globalInstructions reads the user's instructions to Codex for all projects.
func globalInstructions(home string) (string, error) {
	for _, name := range []string{"AGENTS.override.md", "AGENTS.md"} {
		data, err := os.ReadFile(filepath.Join(home, name))
		if home == "" || errors.Is(err, fs.ErrNotExist) || err == nil && len(bytes.TrimSpace(data)) == 0 {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("read the user's instructions: %w", err)
		}
		return strings.ToValidUTF8(string(data[:min(len(data), maxGlobal)]), "\uFFFD"), nil
	}
	return "", nil
}

// Instructions returns the user's AGENTS.md, if the definition asks for it.
func (i installed) Instructions() string { return i.instructions }
