package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/plait-run/plait/internal/agent/acp"
	"github.com/plait-run/plait/internal/agent/host"
)

// realCopilot is the real GitHub Copilot, found once with the environment of the test run.
var realCopilot = sync.OnceValues(func() (host.Program, error) {
	kind, _ := acp.Named("copilot")
	return acp.Find(context.Background(), host.New(host.Config{}), kind, "")
})

// needCopilot is the condition [copilot]. If nothing may be skipped, it fails when the program is missing.
func needCopilot() (bool, error) {
	_, err := realCopilot()
	var missing *host.MissingError
	if errors.As(err, &missing) && os.Getenv("CI") == "" {
		fmt.Fprintln(os.Stderr, "NO REAL COPILOT, SO ITS STORIES ARE SKIPPED:", err)
		return false, nil
	}
	return err == nil, err
}
