package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plait-run/plait/internal/agent/scripted"
)

// usage: codexuses SCENARIO PROMPT: runs the real Codex, as a person's own program, with plait mcp
// among its servers and a scripted model. Its output is on standard output.
func codexUses(ts *testscript.TestScript, neg bool, args []string) {
	sc, err := scripted.Load(ts.MkAbs(args[0]))
	ts.Check(err)
	s, err := scripted.Open(scripted.Config{Scenario: sc})
	ts.Check(err)
	defer s.Close()
	dir, err := realCodex()
	ts.Check(err)
	home := ts.MkAbs("../codexhome")
	ts.Check(os.MkdirAll(home, 0o700))
	catalog := filepath.Join(home, "catalog.json")
	ts.Check(os.WriteFile(catalog, scripted.Catalog(), 0o600))
	plait, err := exec.LookPath("plait") // testscript has put it into PATH
	ts.Check(err)
	var pass []string
	for _, name := range []string{"PATH", "HOME", "PLAIT_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"} {
		pass = append(pass, fmt.Sprintf("%s = %q", name, ts.Getenv(name)))
	}
	ts.Check(os.WriteFile(filepath.Join(home, "config.toml"), fmt.Appendf(nil, `
model = %q
model_provider = "scripted"
model_catalog_json = %q
check_for_update_on_startup = false
web_search = "disabled"
[analytics]
enabled = false
[features]
plugins = false
apps = false
goals = false
[agents]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = %q
wire_api = "responses"
env_key = "SCRIPTED_KEY"
[mcp_servers.plait]
command = %q
args = ["mcp"]
startup_timeout_sec = 60
tool_timeout_sec = 60
default_tools_approval_mode = "approve"
env = { %s }
`, scripted.Model, catalog, s.URL(), plait, strings.Join(pass, ", ")), 0o600))
	cmd := exec.Command(filepath.Join(dir, "codex"), "exec", "--skip-git-repo-check", "-C", ts.MkAbs("."), "-s",
		"read-only", args[1])
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "CODEX_HOME=" + home, "SCRIPTED_KEY=x"}
	cmd.WaitDelay = 5 * time.Second
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	ts.Check(os.WriteFile(ts.MkAbs("codex.txt"), []byte(out.String()), 0o600))
	if err != nil {
		ts.Fatalf("codex: %v\n%s\n%s", err, out.String(), errs.String())
	}
	ts.Logf("%s\n%s", out.String(), errs.String())
}
