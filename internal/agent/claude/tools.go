package claude

import (
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
)

// Tools by access. None starts another agent, which would not be recorded.
var (
	readTools  = []string{"Read", "Grep", "Glob"}
	runTools   = []string{"Bash"}
	writeTools = []string{"Edit", "Write", "NotebookEdit"}
	netTools   = []string{"WebFetch", "WebSearch"}
)

// arguments returns the arguments of Claude Code, and the variables that they refer to.
func (a *Agent) arguments(s *setup, req agent.Request) (args, env []string) {
	tools := slices.Clone(readTools)
	switch {
	case s.Sandbox.Enforced || req.Access == agent.Write || full(req):
		tools = append(tools, runTools...)
		if req.Access != agent.Read {
			tools = append(tools, writeTools...)
		}
	}
	if a.cfg.Network || full(req) {
		tools = append(tools, netTools...)
	}
	args = []string{"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
		"--setting-sources", "user", "--settings", settings(a.cfg.MCP), "--strict-mcp-config", "--disable-slash-commands",
		"--tools", strings.Join(tools, ","), "--permission-prompt-tool", "stdio"}
	if s.Sandbox.Enforced || full(req) {
		args = append(args, "--permission-mode", "bypassPermissions")
	}
	if a.cfg.Model != "" {
		args = append(args, "--model", a.cfg.Model)
	}
	if a.cfg.Effort != "" {
		args = append(args, "--effort", a.cfg.Effort)
	}
	servers, env := mcp(a.host, a.servers)
	args = slices.Concat(args, servers, s.sessionArgs(req))
	if s.form != nil {
		args = append(args, "--json-schema", string(s.asked))
	}
	return args, env
}
