package parse

import (
	"encoding/json"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
)

// agentKeys maps each agent kind to the keys it understands besides kind and idle.
var agentKeys = map[string][]string{
	"codex": {
		"model", "effort", "path", "config", "env", "pass", "dir", "sandbox", "mcp", "globalInstructions",
	},
	"codex-exec": {
		"model", "effort", "path", "config", "env", "pass", "dir", "sandbox", "mcp", "globalInstructions",
	},
	"acp":     {"agent", "command", "model", "path", "env", "pass", "dir", "sandbox"},
	"claude":  {"model", "effort", "path", "env", "pass", "dir", "sandbox", "mcp"},
	"command": {"command", "dir", "env", "pass", "exit", "output"},
	"model":   {"url", "api", "keyEnv", "model", "maxTurns", "config", "env", "pass", "dir", "sandbox"},
	"replay":  {"recording"},
}

// DecodeAgent reads one agent definition from an agents mapping in a configuration file, or from
// a role. The problems name file and use node's lines.
func DecodeAgent(node *yaml.Node, file string) (flow.Agent, []flow.Problem) {
	r := newReader(nil, file)
	r.normalize(node, []string{file})
	a := r.agent(node)
	return a, sorted(file, r.problems)
}

// agent decodes and checks an agent definition in a normalized tree.
func (r *reader) agent(n *yaml.Node) flow.Agent {
	var a flow.Agent
	keys := map[string]*yaml.Node{}
	field := func(f func(*yaml.Node)) func(entry) {
		return func(e entry) { keys[resolve(e.key).Value] = e.key; f(e.val) }
	}
	fields := map[string]func(entry){
		"kind":      field(func(v *yaml.Node) { a.Kind = r.text(v, "kind") }),
		"agent":     field(func(v *yaml.Node) { a.Agent = r.text(v, "agent") }),
		"command":   field(func(v *yaml.Node) { a.Command = r.argv(v) }),
		"dir":       field(func(v *yaml.Node) { a.Dir = r.agentDir(v) }),
		"env":       field(func(v *yaml.Node) { a.Env = r.environment(v) }),
		"pass":      field(func(v *yaml.Node) { a.Pass = r.passed(v) }),
		"exit":      field(func(v *yaml.Node) { a.Exit = r.exits(v) }),
		"output":    field(func(v *yaml.Node) { a.Output = r.output(v) }),
		"idle":      field(func(v *yaml.Node) { a.Idle = r.duration(v, "idle") }),
		"model":     field(func(v *yaml.Node) { a.Model = r.text(v, "model") }),
		"effort":    field(func(v *yaml.Node) { a.Effort = r.text(v, "effort") }),
		"path":      field(func(v *yaml.Node) { a.Path = r.text(v, "path") }),
		"config":    field(func(v *yaml.Node) { a.Config = r.config(v) }),
		"sandbox":   field(func(v *yaml.Node) { a.Sandbox = r.sandbox(v) }),
		"mcp":       field(func(v *yaml.Node) { a.MCP = r.servers(v) }),
		"recording": field(func(v *yaml.Node) { a.Recording = r.text(v, "recording") }),
		"url":       field(func(v *yaml.Node) { a.URL = r.address(v) }),
		"api":       field(func(v *yaml.Node) { a.API = r.api(v) }),
		"keyEnv":    field(func(v *yaml.Node) { a.KeyEnv = r.variable(v) }),
		"maxTurns":  field(func(v *yaml.Node) { n, _ := r.count(v, "maxTurns"); a.MaxTurns = int(n) }),

		"globalInstructions": field(func(v *yaml.Node) { a.Global, _ = r.boolean(v, "globalInstructions") }),
	}
	r.object(n, "an agent", fields)
	if rn := resolve(n); rn.Kind != yaml.MappingNode {
		if isNull(rn) {
			r.report(n, codeBadAgent, "the agent is empty")
		}
		return a
	}
	r.agentKind(n, a, keys)
	return a
}

// agentKind checks the keys that a kind requires or cannot have.
func (r *reader) agentKind(n *yaml.Node, a flow.Agent, keys map[string]*yaml.Node) {
	known, ok := agentKeys[a.Kind]
	switch {
	case a.Kind == "" && keys["kind"] == nil:
		r.report(n, codeBadAgent, "an agent needs a kind: %s", strings.Join(slices.Sorted(maps.Keys(agentKeys)), ", "))
		return
	case !ok:
		r.report(keys["kind"], codeBadAgent, "unknown agent kind %q; there are %s", a.Kind,
			strings.Join(slices.Sorted(maps.Keys(agentKeys)), ", "))
		return
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		switch {
		case k == "kind" || k == "idle" || slices.Contains(known, k):
		case k == "sandbox" && flow.Unboxed(a.Kind) != "":
			r.report(keys[k], codeBadAgent, "%s", flow.Unboxed(a.Kind))
		default:
			r.report(keys[k], codeBadAgent, "%s does not apply to agents of kind %s", k, a.Kind)
		}
	}
	if a.Kind == "command" && keys["command"] == nil {
		r.report(n, codeBadAgent, "an agent of kind command needs command, a list of arguments")
	}
	if a.Kind == "acp" {
		r.acp(n, a, keys)
	}
	if a.Kind == "replay" && a.Recording == "" {
		r.report(n, codeBadAgent, "an agent of kind replay needs recording")
	}
}

// acp checks that an agent of kind acp is known, or has a command.
func (r *reader) acp(n *yaml.Node, a flow.Agent, keys map[string]*yaml.Node) {
	names := strings.Join(flow.ACPAgents, ", ")
	switch {
	case (keys["agent"] == nil) == (keys["command"] == nil):
		r.report(n, codeBadAgent, "an agent of kind acp needs either agent (%s) or command, a list of arguments", names)
	case keys["agent"] != nil && !slices.Contains(flow.ACPAgents, a.Agent):
		r.report(keys["agent"], codeBadAgent, "no agent of kind acp is called %q: use %s, or give its command", a.Agent, names)
	case keys["command"] != nil && keys["path"] != nil:
		r.report(keys["path"], codeBadAgent, "path does not apply to an agent with a command")
	}
}

func (r *reader) argv(n *yaml.Node) []string {
	if rn := resolve(n); rn.Kind == yaml.ScalarNode && !isBroken(rn) {
		r.report(n, codeBadAgent, "command is a list of arguments, never a shell line")
		return nil
	}
	argv := r.list(n, "command", r.word)
	if resolve(n).Kind == yaml.SequenceNode && (len(argv) == 0 || argv[0] == "") {
		r.report(n, codeBadAgent, "command does not name a program")
	}
	for _, a := range argv {
		if strings.ContainsRune(a, 0) {
			r.report(n, codeBadAgent, "an argument contains a zero byte")
		}
	}
	return argv
}

// agentDir keeps a command inside its thread's tree.
func (r *reader) agentDir(n *yaml.Node) string {
	dir := r.text(n, "dir")
	if c := slashed(dir); dir != "" && (path.IsAbs(c) || c == ".." || strings.HasPrefix(c, "../")) {
		r.report(n, codeBadAgent, "dir %q is outside the working tree", dir)
	}
	return dir
}

func (r *reader) environment(n *yaml.Node) map[string]string {
	env := map[string]string{}
	for _, e := range r.mapping(n, "env") {
		k := resolve(e.key).Value
		if !flow.IsVariable(k) {
			r.report(e.key, codeBadAgent, "%q is not a valid name of an environment variable", k)
		}
		if isNull(resolve(e.val)) {
			env[k] = ""
			continue
		}
		env[k] = r.word(e.val, "env."+k)
	}
	return env
}

func (r *reader) passed(n *yaml.Node) []string {
	return r.list(n, "pass", func(c *yaml.Node, what string) string {
		s := r.text(c, what)
		if !flow.IsVariable(strings.TrimSuffix(s, "*")) {
			r.report(c, codeBadAgent, "%q is not a valid name of an environment variable", s)
		}
		return s
	})
}

// servers reads the names of MCP servers.
func (r *reader) servers(n *yaml.Node) []string {
	names := r.list(n, "mcp", func(c *yaml.Node, what string) string {
		s := r.text(c, what)
		if s == "" {
			r.report(c, codeBadAgent, "an entry of mcp does not name a server")
		}
		return s
	})
	if len(names) == 0 {
		return nil
	}
	return names
}

func (r *reader) exits(n *yaml.Node) map[string]string {
	exit := map[string]string{}
	for _, e := range r.mapping(n, "exit") {
		k := resolve(e.key).Value
		if c, err := strconv.Atoi(k); err != nil || c < 0 || c > 255 || strconv.Itoa(c) != k {
			r.report(e.key, codeBadAgent, "exit code %q is not a number from 0 to 255", k)
		}
		s := r.word(e.val, "exit."+k)
		if s != flow.Suspend && (s == "" || strings.HasPrefix(s, "$")) {
			r.report(e.val, codeBadAgent, "%q is not a valid status", s)
		}
		exit[k] = s
	}
	return exit
}

func (r *reader) output(n *yaml.Node) string {
	s := r.text(n, "output")
	if s != "" && s != flow.OutputText {
		r.report(n, codeBadAgent, "output of an agent can only be %s, for a program whose output is never parsed; not %q",
			flow.OutputText, s)
	}
	return s
}

func (r *reader) config(n *yaml.Node) map[string]any {
	rn := resolve(n)
	if isNull(rn) || isBroken(rn) {
		return nil
	}
	if rn.Kind != yaml.MappingNode {
		r.report(n, codeWrongType, "config must be a mapping, not %s", kindOf(rn))
		return nil
	}
	// Through JSON, so that a definition read back from JSON is equal.
	data, err := json.Marshal(r.free(n, 0))
	if err != nil {
		r.report(n, codeWrongType, "config: %v", err)
		return nil
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		r.report(n, codeWrongType, "config: %v", err)
	}
	return m
}

func (r *reader) sandbox(n *yaml.Node) *flow.Sandbox {
	rn := resolve(n)
	if isNull(rn) || isBroken(rn) {
		return nil
	}
	s := &flow.Sandbox{}
	r.object(n, "sandbox", map[string]func(entry){
		"write":   func(e entry) { s.Write = r.places(e.val) },
		"network": func(e entry) { s.Network = r.network(e.val) },
		"env":     func(e entry) { s.Env = r.environment(e.val) },
		"pass":    func(e entry) { s.Pass = r.passed(e.val) },
	})
	return s
}

// places reads the list of writable places.
func (r *reader) places(n *yaml.Node) []string {
	return r.list(n, "write", func(c *yaml.Node, what string) string {
		s := r.text(c, what)
		clean := path.Clean(s)
		switch {
		case s == "" || strings.ContainsRune(s, 0):
			r.report(c, codeBadAgent, "%q is not a path", s)
		case clean == "/" || clean == "~":
			r.report(c, codeBadAgent, "%q is too much to write to; access: full has no sandbox at all", s)
		case clean == ".." || strings.HasPrefix(clean, "../") || strings.HasPrefix(clean, "~/.."):
			r.report(c, codeBadAgent, "%q leaves where it starts: give an absolute path", s)
		}
		return s
	})
}

func (r *reader) network(n *yaml.Node) string {
	if rn := resolve(n); rn.Kind == yaml.SequenceNode {
		r.report(n, codeBadAgent, "network is on or off: no agent here can restrict it to a list of hosts")
		return ""
	}
	s := r.text(n, "network")
	if s != flow.NetworkOn && s != flow.NetworkOff {
		r.report(n, codeBadAgent, "network is on or off, not %q", s)
	}
	return s
}

// checkSandbox reports a role's sandbox that cannot be enforced.
func (d *draft) checkSandbox(site *roleSite, role flow.Role) {
	switch s := role.Sandbox; {
	case s == nil:
	case role.Agent != nil && role.Agent.Inline != nil && flow.Unboxed(role.Agent.Inline.Kind) != "":
		d.report(site.sandbox, codeBadAgent, "%s", flow.Unboxed(role.Agent.Inline.Kind))
	case role.Flow != "":
		d.report(site.sandbox, codeBadAgent, "the flow does the work of role %s: its roles have their own sandbox", site.name)
	case role.Access == flow.Full && (s.Write != nil || s.Network == flow.NetworkOff):
		d.report(site.sandbox, codeBadAgent, "access: full has no sandbox: nothing would keep write and network")
	}
}

// address reads the base of an API.
func (r *reader) address(n *yaml.Node) string {
	s := r.text(n, "url")
	switch u, err := url.Parse(s); {
	case s == "":
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		r.report(n, codeBadAgent, "%q is not the address of a server, such as http://localhost:11434/v1", s)
	case u.User != nil || u.RawQuery != "":
		r.report(n, codeBadAgent, "url has no place for a key: name the variable that has it by keyEnv")
	}
	return s
}

// api reads which API a server speaks.
func (r *reader) api(n *yaml.Node) string {
	s := r.text(n, "api")
	if s != "" && s != "chat" && s != "messages" {
		r.report(n, codeBadAgent, "api is chat or messages, not %q", s)
	}
	return s
}

// variable reads the name of a variable.
func (r *reader) variable(n *yaml.Node) string {
	s := r.text(n, "keyEnv")
	if s != "" && !flow.IsVariable(s) {
		r.report(n, codeBadAgent, "keyEnv is the name of a variable that has the key, never the key itself")
	}
	return s
}
