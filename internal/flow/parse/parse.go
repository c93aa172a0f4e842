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
	blind bool // part of the graph could not be read, so reachability is not checked
}

// A roleSite is a role being parsed.
type roleSite struct {
	name       string
	key        *yaml.Node
	val        *yaml.Node
	keys       map[string]entry // what it has
	schemaNode *yaml.Node       // nil if it has no frontmatter of its own
	schema     *schema.Schema
}

// calls returns the node that names the flow that a call role calls, nil for any other.
func (r *roleSite) calls() *yaml.Node {
	if e, ok := r.keys["flow"]; ok && !isNull(resolve(e.val)) {
		return e.val
	}
	return nil
}

type nodeSite struct {
	name   string
	key    *yaml.Node
	routes []routeSite
	unread bool // its routes have an unsupported form
}

type routeSite struct {
	status string
	key    *yaml.Node
	val    *yaml.Node
	keys   map[string]entry // what it has
	flow.Route
}

// at returns the value of a key, nil if the route does not have it.
func (rs routeSite) at(key string) *yaml.Node { return rs.keys[key].val }

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
	own := r.old(root, oldKeys)
	for _, e := range r.entries(root) {
		if k := resolve(e.key).Value; strings.HasPrefix(k, "x-") {
			own[k] = func(entry) {}
		}
	}
	own["version"] = func(e entry) { d.version(e.val) }
	own["roles"] = func(e entry) { d.decodeRoles(e.val) }
	own["graph"] = func(e entry) { d.decodeGraph(e.val) }
	own["forks"] = func(e entry) { d.decodeForks(e.val) }
	own["joins"] = func(e entry) { d.decodeJoins(e.val) }
	own["gates"] = func(e entry) { d.decodeGates(e.val) }
	keys := r.decode(root, "a flow", d.def, own)
	d.name, d.graph = keys["name"].val, keys["graph"].key
	d.pair()
	d.def.Limits.Fill()
	if rn := resolve(root); rn.Kind != yaml.MappingNode {
		if isNull(rn) {
			r.report(root, codeWrongType, "the flow is empty: it needs a name, roles and a graph")
		}
		return d
	}
	if keys["version"].val == nil {
		r.warn(root, codeVersionNone, "no version: version: 1 is assumed")
	}
	if keys["roles"].val == nil && !r.meant["roles"] {
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
	role := d.borrowed(site.val)
	own := d.old(site.val, oldRoleKeys)
	own["from"] = func(entry) {}
	own["frontmatter"] = func(e entry) { role.Frontmatter = d.frontmatter(site, e.val) }
	own["until"] = func(e entry) {
		if !isNull(resolve(e.val)) {
			role.Until = d.argv(e.val, "until")
		}
	}
	site.keys = d.decode(site.val, "role "+site.name, &role, own)
	d.checkSandbox(site, role)
	if role.Plan {
		d.setPlanRole(site, &role)
	}
	if role.Chat {
		d.checkChatRole(site, role)
	}
	d.checkMCP(site.keys["mcp"].val, role.MCP)
	if len(role.MCP) == 0 {
		role.MCP = nil
	}
	if other := site.endless(role); role.Until != nil && other != "" {
		d.report(site.keys["until"].key, codeBadUntil, "role %s has %s: no command can say that its work is done",
			site.name, other)
	}
	return role
}

// endless returns what of a role excludes a command that it goes on until, or "".
func (r *roleSite) endless(role flow.Role) string {
	switch {
	case r.calls() != nil:
		return "a flow"
	case role.Plan:
		return "plan: true"
	case role.Chat:
		return "chat: true"
	}
	return ""
}

func (d *draft) frontmatter(site *roleSite, n *yaml.Node) json.RawMessage {
	rn := resolve(n)
	if isNull(rn) || isBroken(rn) {
		return nil
	}
	if rn.Kind != yaml.MappingNode {
		d.report(n, codeWrongType, "frontmatter must be a JSON Schema, a mapping, not %s", kindOf(rn))
		return nil
	}
	before := len(d.problems)
	schema := d.free(n, 0)
	if len(d.problems) > before {
		return nil // not worth compiling
	}
	site.schemaNode = n
	data, err := json.Marshal(schema)
	if err != nil {
		d.report(n, codeBadSchema, "%v", err)
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

// oldRouteKeys describes route keys of older formats.
var oldRouteKeys = map[string]string{
	"condition": "a route is {role, prompt} under its status",
	"from":      "a route is {role, prompt} under its status",
	"to":        "a route is {role, prompt} under its status",
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
	rs.keys = d.decode(e.val, what, &rs.Route, d.old(e.val, oldRouteKeys))
	if role := rs.at("role"); rs.Role == "" && (role == nil || isNull(resolve(role))) {
		d.report(e.val, codeMissingKey, "%s needs a role", what)
	}
	d.blind = d.blind || rs.Role == ""
	return rs
}
