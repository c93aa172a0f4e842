// Package parse makes definitions of flows from files, and reports what is wrong with them.
//
// In: the bytes of a flow file, read through a [Source]. Out: a [flow.Definition] with every default filled in, and all
// [flow.Problem]s of the file with their positions.
//
// Laws:
//  1. All problems are reported together, each with file, line, column and a permanent code.
//  2. Files are read only through the Source that the caller passes, and only below the flow's directory.
//  3. Bad input is a problem, never a panic.
package parse

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/schema"
)

// Load reads the file through src and parses it.
func Load(src Source, file string) (*flow.Definition, []flow.Problem) {
	data, err := src.ReadFile(file)
	if err != nil {
		return nil, []flow.Problem{unreadable(file, err)}
	}
	return Parse(src, file, data)
}

// Parse reads a flow from data, the content of file. Includes are read through src, which may be
// nil if they are not allowed. Parse returns every problem it finds, in the order of the file.
// The definition is nil if one of them is an error, but not for warnings.
func Parse(src Source, file string, data []byte) (*flow.Definition, []flow.Problem) {
	r := newReader(src, file)
	d := r.draft(data)
	problems := sorted(file, r.problems)
	if d == nil || flow.Failed(problems) {
		return nil, problems
	}
	return d.def, problems
}

// draft reads and checks data; it returns nil if data cannot be parsed.
func (r *reader) draft(data []byte) *draft {
	root := r.document(r.main, data)
	if root == nil {
		return nil
	}
	r.normalize(root, []string{r.main})
	d := decode(r, root)
	d.check()
	return d
}

// A draft is a definition being parsed, with the nodes of its parts.
type draft struct {
	*reader
	def   *flow.Definition
	root  *yaml.Node
	name  *yaml.Node // nil if missing
	graph *yaml.Node // the key, nil if missing
	roles []roleSite // in file order
	nodes []nodeSite
	forks []*forkSite
	joins []*joinSite
	gates []*gateSite
	pins  []*yaml.Node
	blind bool // part of the graph could not be read, so reachability is not checked
}

type roleSite struct {
	name        string
	key         *yaml.Node
	val         *yaml.Node
	frontmatter *yaml.Node // the key, nil if missing
	schemaNode  *yaml.Node
	schema      *schema.Schema
	agent       *yaml.Node // the key
	flow        *yaml.Node // the flow that a call role calls
	plan        *yaml.Node // the key, nil if it is not a plan role
	chat        *yaml.Node // the key, nil if it is not a chat role
	sandbox     *yaml.Node // the key
}

type nodeSite struct {
	name   string
	key    *yaml.Node
	routes []routeSite
	unread bool // its routes have an unsupported form
}

type routeSite struct {
	status   string
	key      *yaml.Node
	val      *yaml.Node
	role     *yaml.Node
	prompt   *yaml.Node
	location *yaml.Node
	code     *yaml.Node
	flow.Route
}

// oldKeys describes flow formats before version 1, by a key that identifies them.
var oldKeys = map[string]string{
	"moderator":  "the moderator table became graph: {node: {status: {role, prompt}}}",
	"edges":      "edges became graph: {node: {status: {role, prompt}}}",
	"conditions": "conditions became statuses: a route is graph[node][$status]",
	"bundle":     "a script bundle is not a flow; write roles and graph",
	"descriptor": "a script bundle's descriptor is not a flow; write roles and graph",
}

func decode(r *reader, root *yaml.Node) *draft {
	d := &draft{reader: r, root: root, def: &flow.Definition{
		Version: 1, Roles: map[string]flow.Role{}, Graph: map[string]map[string]flow.Route{},
		Context: flow.Context{Tokens: flow.DefaultTokens},
	}}
	var version, roles *yaml.Node
	skip := func(entry) {}
	fields := map[string]func(entry){
		"version":     func(e entry) { version = e.val; d.version(e.val) },
		"name":        func(e entry) { d.name = e.val; d.def.Name = r.text(e.val, "name") },
		"description": func(e entry) { d.def.Description = r.text(e.val, "description") },
		"limits":      func(e entry) { d.limits(e.val) },
		"context":     func(e entry) { d.context(e.val) },
		"roles":       func(e entry) { roles = e.key; d.decodeRoles(e.val) },
		"graph":       func(e entry) { d.graph = e.key; d.decodeGraph(e.val) },
		"forks":       func(e entry) { d.decodeForks(e.val) },
		"joins":       func(e entry) { d.decodeJoins(e.val) },
		"gates":       func(e entry) { d.decodeGates(e.val) },
	}
	for _, e := range r.mapping(root, "a flow") {
		k := resolve(e.key).Value
		if _, known := fields[k]; known {
			continue
		}
		if why, ok := oldKeys[k]; ok {
			r.report(e.key, codeOldFormat, "%q is of an older format: %s", k, why)
		} else if !strings.HasPrefix(k, "x-") {
			continue
		}
		fields[k] = skip
	}
	r.object(root, "a flow", fields)
	d.pair()
	d.def.Limits.Fill()
	if rn := resolve(root); rn.Kind != yaml.MappingNode {
		if isNull(rn) {
			r.report(root, codeWrongType, "the flow is empty: it needs a name, roles and a graph")
		}
		return d
	}
	if version == nil {
		r.warn(root, codeVersionNone, "no version: version: 1 is assumed")
	}
	if roles == nil && !r.meant["roles"] {
		r.report(root, codeMissingKey, "a flow needs roles")
	}
	return d
}

func (d *draft) version(n *yaml.Node) {
	rn := resolve(n)
	if v, err := scalar(rn); err != nil || v != int64(1) {
		if !isBroken(rn) {
			d.report(n, codeBadVersion, "unknown version: this Plait reads version: 1")
		}
	}
}

func (d *draft) limits(n *yaml.Node) {
	l := &d.def.Limits
	small := func(to *int) func(entry) {
		return func(e entry) { v, _ := d.count(e.val, resolve(e.key).Value); *to = int(v) }
	}
	big := func(to *int64) func(entry) {
		return func(e entry) { *to, _ = d.count(e.val, resolve(e.key).Value) }
	}
	d.object(n, "limits", map[string]func(entry){
		"maxRounds":       small(&l.MaxRounds),
		"maxDepth":        small(&l.MaxDepth),
		"maxConcurrent":   small(&l.MaxConcurrent),
		"maxActions":      small(&l.MaxActions),
		"maxTaskActions":  small(&l.MaxTaskActions),
		"maxAttempts":     small(&l.MaxAttempts),
		"maxTokens":       big(&l.MaxTokens),
		"maxCostMicroUSD": big(&l.MaxCostMicroUSD),
		"timeout":         func(e entry) { l.Timeout = d.duration(e.val, "timeout") },
		"maxOutput":       func(e entry) { l.MaxOutput = d.size(e.val, "maxOutput") },
	})
}

func (d *draft) size(n *yaml.Node, what string) flow.Size {
	rn := resolve(n)
	if isNull(rn) || isBroken(rn) {
		return 0
	}
	if rn.Kind != yaml.ScalarNode || rn.ShortTag() == "!!bool" {
		d.report(n, codeWrongType, "%s must be a size, not %s", what, kindOf(rn))
		return 0
	}
	text, err := numeral(rn)
	var s flow.Size
	if err == nil {
		s, err = flow.ParseSize(text)
	}
	if err != nil {
		d.report(n, codeBadLimit, "%s: %v", what, err)
	}
	return s
}

func (d *draft) context(n *yaml.Node) {
	d.object(n, "context", map[string]func(entry){
		"tokens": func(e entry) {
			if v, ok := d.count(e.val, "tokens"); ok {
				d.def.Context.Tokens = int(v)
			}
		},
		"pin": func(e entry) {
			if rn := resolve(e.val); rn.Kind == yaml.SequenceNode {
				d.pins = rn.Content
			}
			d.def.Context.Pin = d.list(e.val, "pin", d.text)
		},
	})
}

func (d *draft) decodeRoles(n *yaml.Node) {
	for _, e := range d.mapping(n, "roles") {
		site := roleSite{name: resolve(e.key).Value, key: e.key, val: e.val}
		role := d.role(&site)
		d.roles = append(d.roles, site)
		d.def.Roles[site.name] = role
	}
}

// oldRoleKeys describes role keys of older formats.
var oldRoleKeys = map[string]string{
	"systemPrompt": "it became goal and procedure",
	"schema":       "it became frontmatter",
	"outputSchema": "it became frontmatter",
	"extractRefs":  "references are found without it",
}

func (d *draft) role(site *roleSite) flow.Role {
	role := flow.Role{Access: flow.Read, Retry: flow.Retry{Max: flow.DefaultRetries}}
	what := "role " + site.name
	fields := map[string]func(entry){
		"description":  func(e entry) { role.Description = d.text(e.val, "description") },
		"goal":         func(e entry) { role.Goal = d.text(e.val, "goal") },
		"capabilities": func(e entry) { role.Capabilities = d.list(e.val, "capabilities", d.text) },
		"procedure":    func(e entry) { role.Procedure = d.text(e.val, "procedure") },
		"output":       func(e entry) { role.Output = d.text(e.val, "output") },
		"agent":        func(e entry) { site.agent, role.Agent = e.key, d.agentRef(e.val) },
		"access":       func(e entry) { role.Access = d.access(e.val) },
		"sandbox":      func(e entry) { site.sandbox, role.Sandbox = e.key, d.sandbox(e.val) },
		"timeout":      func(e entry) { role.Timeout = d.duration(e.val, "timeout") },
		"retry":        func(e entry) { role.Retry = d.retry(e.val) },
		"frontmatter":  func(e entry) { role.Frontmatter = d.frontmatter(site, e) },
		"flow": func(e entry) {
			if rn := resolve(e.val); !isNull(rn) {
				site.flow, role.Flow = e.val, d.text(e.val, "flow")
			}
		},
		"plan": func(e entry) {
			if on, _ := d.boolean(e.val, "plan"); on {
				site.plan, role.Plan = e.key, true
			}
		},
		"chat": func(e entry) {
			if on, _ := d.boolean(e.val, "chat"); on {
				site.chat, role.Chat = e.key, true
			}
		},
	}
	for _, e := range d.entries(site.val) {
		if why, ok := oldRoleKeys[resolve(e.key).Value]; ok {
			d.report(e.key, codeOldFormat, "%q is of an older format: %s", resolve(e.key).Value, why)
			fields[resolve(e.key).Value] = func(entry) {}
		}
	}
	d.object(site.val, what, fields)
	d.checkSandbox(site, role)
	if role.Plan {
		d.setPlanRole(site, &role)
	}
	if role.Chat {
		d.checkChatRole(site)
	}
	return role
}

func (d *draft) agentRef(n *yaml.Node) *flow.AgentRef {
	rn := resolve(n)
	switch {
	case isNull(rn) || isBroken(rn):
		return nil
	case rn.Kind == yaml.MappingNode:
		a := d.agent(n)
		return &flow.AgentRef{Inline: &a}
	}
	name := d.text(n, "agent")
	if rn.Kind == yaml.ScalarNode && strings.TrimSpace(name) == "" {
		d.report(n, codeBadAgent, "the agent has no name")
	}
	return &flow.AgentRef{Name: name}
}

func (d *draft) access(n *yaml.Node) flow.Access {
	if rn := resolve(n); isNull(rn) || isBroken(rn) {
		return flow.Read
	}
	switch a := flow.Access(d.word(n, "access")); a {
	case flow.Read, flow.Write, flow.Full:
		return a
	default:
		d.report(n, codeBadAccess, "access is read, write or full, not %q", string(a))
		return flow.Read
	}
}

func (d *draft) retry(n *yaml.Node) flow.Retry {
	retry := flow.Retry{Max: flow.DefaultRetries}
	d.object(n, "retry", map[string]func(entry){
		"max": func(e entry) {
			if v, ok := d.count(e.val, "max"); ok {
				retry.Max = int(v)
			}
		},
		"interrupted": func(e entry) {
			if v, ok := d.boolean(e.val, "interrupted"); ok {
				retry.Interrupted = &v
			}
		},
	})
	return retry
}

func (d *draft) frontmatter(site *roleSite, e entry) json.RawMessage {
	rn := resolve(e.val)
	if isNull(rn) || isBroken(rn) {
		return nil
	}
	if rn.Kind != yaml.MappingNode {
		d.report(e.val, codeWrongType, "frontmatter must be a JSON Schema, a mapping, not %s", kindOf(rn))
		return nil
	}
	before := len(d.problems)
	schema := d.free(e.val, 0)
	if len(d.problems) > before {
		return nil // not worth compiling
	}
	site.frontmatter, site.schemaNode = e.key, e.val
	data, err := json.Marshal(schema)
	if err != nil {
		d.report(e.val, codeBadSchema, "%v", err)
		return nil
	}
	return data
}

func (d *draft) decodeGraph(n *yaml.Node) {
	if rn := resolve(n); rn.Kind != yaml.MappingNode && !isNull(rn) {
		d.blind = true
	}
	for _, e := range d.mapping(n, "graph") {
		site := nodeSite{name: resolve(e.key).Value, key: e.key}
		routes := map[string]flow.Route{}
		if rn := resolve(e.val); rn.Kind == yaml.SequenceNode {
			d.blind, site.unread = true, true
			d.report(e.key, codeOldFormat, "a list of conditions is of an older format: write {status: {role, prompt}}")
		} else {
			if why, old := oldKeys[site.name]; old {
				d.report(e.key, codeOldFormat, "%q is of an older format: %s", site.name, why)
				continue
			}
			site.unread = rn.Kind != yaml.MappingNode && !isNull(rn)
			d.blind = d.blind || site.unread
			for _, s := range d.mapping(e.val, "graph."+site.name) {
				rs := d.route(site.name, s)
				site.routes = append(site.routes, rs)
				routes[rs.status] = rs.Route
			}
		}
		d.nodes = append(d.nodes, site)
		d.def.Graph[site.name] = routes
	}
}

func (d *draft) route(node string, e entry) routeSite {
	rs := routeSite{status: resolve(e.key).Value, key: e.key, val: e.val}
	what := fmt.Sprintf("graph.%s.%s", node, rs.status)
	rn := resolve(e.val)
	if rn.Kind != yaml.MappingNode {
		d.blind = true
		if !isBroken(rn) {
			d.report(e.val, codeWrongType, "%s must be {role, prompt}, not %s", what, kindOf(rn))
		}
		return rs
	}
	fields := map[string]func(entry){
		"role":     func(f entry) { rs.role = f.val; rs.Role = d.text(f.val, "role") },
		"prompt":   func(f entry) { rs.prompt = f.val; rs.Prompt = d.text(f.val, "prompt") },
		"location": func(f entry) { rs.location = f.val; rs.Location = d.text(f.val, "location") },
		"code": func(f entry) {
			rs.code = f.val
			v, _ := d.count(f.val, "code")
			rs.Code = int(v)
		},
	}
	for _, f := range d.entries(rn) {
		switch k := resolve(f.key).Value; k {
		case "condition", "to", "from":
			d.report(f.key, codeOldFormat, "%q is of an older format: a route is {role, prompt} under its status", k)
			fields[k] = func(entry) {}
		}
	}
	d.object(e.val, what, fields)
	if rs.Role == "" && (rs.role == nil || isNull(resolve(rs.role))) {
		d.report(e.val, codeMissingKey, "%s needs a role", what)
	}
	d.blind = d.blind || rs.Role == ""
	return rs
}
