package claude

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/gateway"
	"github.com/plait-run/plait/internal/proc"
)

// Tools by what a role may do. None starts another agent: there would be unrecorded ones.
var (
	readTools  = []string{"Read", "Grep", "Glob"}
	runTools   = []string{"Bash"}
	writeTools = []string{"Edit", "Write", "NotebookEdit"}
	netTools   = []string{"WebFetch", "WebSearch"}
)

// commandLine puts together how Claude Code is started, and says what that enforces.
func (a *Agent) commandLine(s *site, req agent.Request, scratch string) {
	s.walled = a.host.bwrap != "" && !full(req)
	tools := slices.Clone(readTools)
	switch {
	case s.walled || req.Access == agent.Write || full(req):
		tools = append(tools, runTools...)
		if req.Access != agent.Read {
			tools = append(tools, writeTools...)
		}
	}
	online := a.cfg.Network || full(req)
	if online {
		tools = append(tools, netTools...)
	}
	args := []string{"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
		"--setting-sources", "user", "--settings", settings, "--strict-mcp-config", "--disable-slash-commands",
		"--tools", strings.Join(tools, ","), "--permission-prompt-tool", "stdio"}
	if s.walled || full(req) {
		args = append(args, "--permission-mode", "bypassPermissions")
	}
	if a.cfg.Model != "" {
		args = append(args, "--model", a.cfg.Model)
	}
	if a.cfg.Effort != "" {
		args = append(args, "--effort", a.cfg.Effort)
	}
	if s.session = req.Session; s.session != "" {
		args = append(args, "--resume", s.session)
	} else {
		s.session = uuid.NewString()
		args = append(args, "--session-id", s.session)
	}
	s.path, s.args = s.program.Path, args
	switch {
	case s.walled:
		a.wall(s, req, scratch, online)
	case full(req):
		s.sandbox = "none"
	default:
		s.sandbox = "none: each command and each change is asked for"
	}
	if s.gateway == nil {
		s.sandbox += ", via: direct"
	}
}

// wall puts the command line behind a wall.
func (a *Agent) wall(s *site, req agent.Request, scratch string, online bool) {
	w := proc.Wall{
		Network: online || s.gateway == nil, // a login of Claude's own needs the network
		Hide:    slices.Concat(a.host.hidden(), a.host.cfg.Hide),
		Read:    []string{s.dir, s.program.Path},
		Write:   append([]string{s.home, filepath.Join(scratch, "tmp"), filepath.Join(scratch, "cache")}, a.cfg.Write...),
	}
	if bin := req.Bin(); bin != "" {
		w.Read = append(w.Read, bin)
	}
	if req.Desk.Context != "" {
		w.Read = append(w.Read, req.Desk.Context)
	}
	if req.Desk.Artifacts != "" {
		w.Write = append(w.Write, req.Desk.Artifacts)
	}
	s.sandbox = "bubblewrap: read-only"
	if req.Access == agent.Write {
		w.Tree = append(w.Tree, req.Dir)
		for _, name := range guarded {
			w.Guard = append(w.Guard, filepath.Join(req.Dir, name))
		}
		s.sandbox = "bubblewrap: workspace-write"
	}
	for _, dir := range a.cfg.Write {
		s.sandbox += ", write " + dir
	}
	if w.Network {
		s.sandbox += ", network"
	} else {
		s.args = slices.Concat(a.host.cfg.Forward[1:], []string{s.gateway.Socket(), s.path}, s.args)
		s.path = a.host.cfg.Forward[0]
		w.Read = append(w.Read, s.path, filepath.Dir(s.gateway.Socket()))
		s.env = append(slices.DeleteFunc(s.env, func(kv string) bool { return strings.HasPrefix(kv, "ANTHROPIC_BASE_URL=") }),
			"ANTHROPIC_BASE_URL=http://127.0.0.1:"+strconv.Itoa(gateway.ForwardPort))
	}
	s.path, s.args = w.Around(a.host.bwrap, s.path, s.args)
}

// guarded are the places in a tree from which Plait, git or an agent takes programs or instructions.
var guarded = []string{".git", ".plait", ".workflows", ".codex", ".claude"}

// hidden are the places where people keep credentials, and the sockets of their programs.
func (h *Host) hidden() []string {
	home := h.cfg.Getenv("HOME")
	list := []string{"/run/docker.sock", "/var/run/docker.sock", h.cfg.Getenv("XDG_RUNTIME_DIR"), h.cfg.Getenv("SSH_AUTH_SOCK")}
	for _, name := range []string{".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc", ".git-credentials",
		".claude", ".claude.json", ".codex", ".config/gh", ".config/gcloud", ".config/plait", ".password-store", ".bash_history"} {
		if home != "" {
			list = append(list, filepath.Join(home, name))
		}
	}
	return slices.DeleteFunc(list, func(p string) bool { return p == "" })
}
