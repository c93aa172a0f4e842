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
	"github.com/plait-run/plait/internal/sys/egress"
)

// agentKeys maps each agent kind to the keys it understands besides kind and idle.
var agentKeys = map[string][]string{
	"codex": {
		"model", "effort", "path", "config", "env", "pass", "private", "dir", "sandbox", "mcp", "globalInstructions",
	},
	"codex-exec": {
		"model", "effort", "path", "config", "env", "pass", "private", "dir", "sandbox", "mcp", "globalInstructions",
	},
	"acp":     {"agent", "command", "model", "path", "env", "pass", "private", "dir", "sandbox"},
	"claude":  {"model", "effort", "path", "env", "pass", "private", "dir", "sandbox", "mcp"},
	"command": {"command", "dir", "env", "pass", "private", "exit", "output"},
	"model":   {"url", "api", "keyEnv", "model", "maxTurns", "config", "env", "pass", "private", "dir", "sandbox"},
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

func (r *reader) agentRef(n *yaml.Node) *flow.AgentRef {
	rn := resolve(n)
	switch {
	case isNull(rn) || isBroken(rn):
		return nil
	case rn.Kind == yaml.MappingNode:
		a := r.agent(n)
		return &flow.AgentRef{Inline: &a}
	}
	name := r.text(n, "agent")
	if rn.Kind == yaml.ScalarNode && strings.TrimSpace(name) == "" {
		r.report(n, codeBadAgent, "the agent has no name")
	}
	return &flow.AgentRef{Name: name}
}

// agent decodes and checks an agent definition in a normalized tree.
func (r *reader) agent(n *yaml.Node) flow.Agent {
	var a flow.Agent
	keys := r.decode(n, "an agent", &a, map[string]func(entry){
		"command": func(e entry) { a.Command = r.argv(e.val, "command") },
		"exit":    func(e entry) { a.Exit = r.exits(e.val) },
	})
	if rn := resolve(n); rn.Kind != yaml.MappingNode {
		if isNull(rn) {
			r.report(n, codeBadAgent, "the agent is empty")
		}
		return a
	}
	if len(a.MCP) == 0 {
		a.MCP = nil
	}
	r.agentValues(a, func(key string) *yaml.Node { return keys[key].val })
	r.agentKind(n, a, keys)
	return a
}

// agentValues checks the values of an agent that are not of every form.
func (r *reader) agentValues(a flow.Agent, at func(key string) *yaml.Node) {
	// A command stays inside its thread's tree.
	if dir := slashed(a.Dir); a.Dir != "" && (path.IsAbs(dir) || dir == ".." || strings.HasPrefix(dir, "../")) {
		r.report(at("dir"), codeBadAgent, "dir %q is outside the working tree", a.Dir)
	}
	r.checkPass(at("pass"), a.Pass)
	for i, host := range a.Private {
		if err := (egress.Allowed{host}).Check(); err != nil {
			r.report(resolve(at("private")).Content[i], codeBadAgent, "%v", err)
		}
	}
	r.checkMCP(at("mcp"), a.MCP)
	if a.Output != "" && a.Output != flow.OutputText {
		r.report(at("output"), codeBadAgent, "output of an agent can only be %s, for a program whose output is never "+
			"parsed; not %q", flow.OutputText, a.Output)
	}
	switch u, err := url.Parse(a.URL); {
	case a.URL == "":
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		r.report(at("url"), codeBadAgent, "%q is not the address of a server, such as http://localhost:11434/v1", a.URL)
	case u.User != nil || u.RawQuery != "":
		r.report(at("url"), codeBadAgent, "url has no place for a key: name the variable that has it by keyEnv")
	}
	if a.API != "" && a.API != "chat" && a.API != "messages" {
		r.report(at("api"), codeBadAgent, "api is chat or messages, not %q", a.API)
	}
	if a.KeyEnv != "" && !flow.IsVariable(a.KeyEnv) {
		r.report(at("keyEnv"), codeBadAgent, "keyEnv is the name of a variable that has the key, never the key itself")
	}
}

func (r *reader) checkMCP(n *yaml.Node, servers []string) {
	for i, server := range servers {
		if server == "" {
			r.report(resolve(n).Content[i], codeBadAgent, "an entry of mcp does not name a server")
		}
	}
}

// AgentHas reports whether agents of a kind have a key.
func AgentHas(kind, key string) bool { return slices.Contains(agentKeys[kind], key) }

// agentKind checks the keys that a kind requires or cannot have.
func (r *reader) agentKind(n *yaml.Node, a flow.Agent, keys map[string]entry) {
	known, ok := agentKeys[a.Kind]
	switch {
	case a.Kind == "" && keys["kind"].key == nil:
		r.report(n, codeBadAgent, "an agent needs a kind: %s", strings.Join(slices.Sorted(maps.Keys(agentKeys)), ", "))
		return
	case !ok:
		r.report(keys["kind"].key, codeBadAgent, "unknown agent kind %q; there are %s", a.Kind,
			strings.Join(slices.Sorted(maps.Keys(agentKeys)), ", "))
		return
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		switch {
		case k == "kind" || k == "idle" || slices.Contains(known, k):
		case k == "sandbox" && flow.Unboxed(a.Kind) != "":
			r.report(keys[k].key, codeBadAgent, "%s", flow.Unboxed(a.Kind))
		default:
			r.report(keys[k].key, codeBadAgent, "%s does not apply to agents of kind %s", k, a.Kind)
		}
	}
	if a.Kind == "command" && keys["command"].key == nil {
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
func (r *reader) acp(n *yaml.Node, a flow.Agent, keys map[string]entry) {
	names := strings.Join(flow.ACPAgents, ", ")
	switch {
	case (keys["agent"].key == nil) == (keys["command"].key == nil):
		r.report(n, codeBadAgent, "an agent of kind acp needs either agent (%s) or command, a list of arguments", names)
	case keys["agent"].key != nil && !slices.Contains(flow.ACPAgents, a.Agent):
		r.report(keys["agent"].key, codeBadAgent, "no agent of kind acp is called %q: use %s, or give its command",
			a.Agent, names)
	case keys["command"].key != nil && keys["path"].key != nil:
		r.report(keys["path"].key, codeBadAgent, "path does not apply to an agent with a command")
	}
}

func (r *reader) argv(n *yaml.Node, what string) []string {
	if rn := resolve(n); rn.Kind == yaml.ScalarNode && !isBroken(rn) {
		r.report(n, codeBadAgent, "%s is a list of arguments, never a shell line", what)
		return nil
	}
	argv := r.list(n, what, r.word)
	if resolve(n).Kind == yaml.SequenceNode && (len(argv) == 0 || argv[0] == "") {
		r.report(n, codeBadAgent, "%s does not name a program", what)
	}
	for _, a := range argv {
		if strings.ContainsRune(a, 0) {
			r.report(n, codeBadAgent, "an argument contains a zero byte")
		}
	}
	return argv
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

// variables reads variables of the environment to set.
func (r *reader) variables(n *yaml.Node, what string) map[string]string {
	env := map[string]string{}
	for _, e := range r.mapping(n, what) {
		k := resolve(e.key).Value
		if !flow.IsVariable(k) {
			r.report(e.key, codeBadAgent, "%q is not a valid name of an environment variable", k)
		}
		if isNull(resolve(e.val)) {
			env[k] = ""
			continue
		}
		env[k] = r.word(e.val, what+"."+k)
	}
	return env
}

// checkPass checks the names of variables to pass on, in list n.
func (r *reader) checkPass(n *yaml.Node, names []string) {
	for i, name := range names {
		if !flow.IsVariable(strings.TrimSuffix(name, "*")) {
			r.report(resolve(n).Content[i], codeBadAgent, "%q is not a valid name of an environment variable", name)
		}
	}
}

func (r *reader) config(n *yaml.Node, what string) map[string]any {
	rn := resolve(n)
	if isNull(rn) || isBroken(rn) {
		return nil
	}
	if rn.Kind != yaml.MappingNode {
		r.report(n, codeWrongType, "%s must be a mapping, not %s", what, kindOf(rn))
		return nil
	}
	// Through JSON, so that a definition read back from JSON is equal.
	data, err := json.Marshal(r.free(n, 0))
	if err != nil {
		r.report(n, codeWrongType, "%s: %v", what, err)
		return nil
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		r.report(n, codeWrongType, "%s: %v", what, err)
	}
	return m
}
