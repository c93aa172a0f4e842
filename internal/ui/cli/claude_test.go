package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plait-run/plait/internal/agent/claude"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/scripted"
)

// realClaude is the real Claude Code, found once with the environment of the test run.
var realClaude = sync.OnceValues(func() (host.Program, error) {
	return host.New(host.Config{}).Find(context.Background(), claude.Package, "", nil)
})

// needClaude is the condition [claude]. If nothing may be skipped, it fails when the program is missing.
func needClaude() (bool, error) {
	_, err := realClaude()
	var missing *host.MissingError
	if errors.As(err, &missing) && os.Getenv("CI") == "" {
		fmt.Fprintln(os.Stderr, "NO REAL CLAUDE CODE, SO ITS STORIES ARE SKIPPED:", err)
		return false, nil
	}
	return err == nil, err
}

// usage: claudeuses SCENARIO PROMPT [ANSWER]: runs the real Claude Code, as a person's own program, with plait mcp
// among its servers and a scripted model. Its output is in claude.txt. A form that it shows its user is filled in
// with ANSWER, or declined.
func claudeUses(ts *testscript.TestScript, neg bool, args []string) {
	sc, err := scripted.Load(ts.MkAbs(args[0]))
	ts.Check(err)
	s, err := scripted.Open(scripted.Config{Scenario: sc})
	ts.Check(err)
	defer s.Close()
	program, err := realClaude()
	ts.Check(err)
	plait, err := exec.LookPath("plait") // testscript has put it into PATH
	ts.Check(err)
	env := map[string]string{}
	for _, name := range []string{"PATH", "HOME", "PLAIT_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"} {
		env[name] = ts.Getenv(name)
	}
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"plait": map[string]any{"command": plait, "args": []string{"mcp"}, "env": env}}})
	ts.Check(err)
	cmd := exec.Command(program.Path, "-p", "--input-format", "stream-json", "--output-format", "stream-json",
		"--verbose", "--mcp-config", string(servers), "--strict-mcp-config", "--allowedTools", "mcp__plait__*",
		"--permission-prompt-tool", "stdio")
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"),
		"CLAUDE_CONFIG_DIR=" + ts.MkAbs("../claudehome"), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"ANTHROPIC_BASE_URL=" + strings.TrimSuffix(s.URL(), "/v1"), "ANTHROPIC_API_KEY=x"}
	cmd.WaitDelay = 5 * time.Second
	in, err := cmd.StdinPipe()
	ts.Check(err)
	said, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	speak := func(v any) {
		ts.Check(json.NewEncoder(in).Encode(v))
	}
	speak(map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": args[1]}})
	var all strings.Builder
	lines := bufio.NewScanner(said)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		fmt.Fprintln(&all, lines.Text())
		var m struct {
			Type    string `json:"type"`
			ID      string `json:"request_id"`
			Request struct{ Subtype string }
		}
		ts.Check(json.Unmarshal(lines.Bytes(), &m))
		switch {
		case m.Type == "control_request":
			answer := map[string]any{"action": "decline"}
			if m.Request.Subtype == "elicitation" && len(args) > 2 {
				answer = map[string]any{"action": "accept", "content": map[string]any{"answer": args[2]}}
			}
			speak(map[string]any{"type": "control_response", "response": map[string]any{
				"subtype": "success", "request_id": m.ID, "response": answer}})
		case m.Type == "result":
			ts.Check(in.Close())
		}
	}
	err = cmd.Wait()
	ts.Check(os.WriteFile(ts.MkAbs("claude.txt"), []byte(all.String()), 0o600))
	if err != nil {
		ts.Fatalf("claude: %v\n%s", err, all.String())
	}
	ts.Logf("%s", all.String())
}
