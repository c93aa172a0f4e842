package parse

import (
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/schema"
	"github.com/plait-run/plait/internal/sys/text"
)

// check runs every rule. Each is a function that looks at the whole draft. Their order does not
// matter, since problems are sorted afterwards.
func (d *draft) check() {
	if resolve(d.root).Kind != yaml.MappingNode {
		return
	}
	for _, rule := range []func(*draft){
		checkName, checkRoleNames, checkPins, checkSchemas, checkReservedProperties,
		checkStart, checkReservedNodes, checkTargets, checkRolesInGraph, checkChats, checkReachable,
		checkCanEnd, checkStatuses, checkPrompts, checkCodes, checkTemplates,
		checkNodeNames, checkForkPaths, checkPairs, checkJoins, checkForkNodes, checkPaths, checkGates, checkCalls,
	} {
		rule(d)
	}
}

func checkName(d *draft) {
	if d.name == nil || isNull(resolve(d.name)) {
		d.report(d.root, codeMissingKey, "a flow needs a name")
		return
	}
	name := d.def.Name
	if resolve(d.name).Kind != yaml.ScalarNode || isBroken(resolve(d.name)) {
		return
	}
	if !flow.IsName(name) {
		d.report(d.name, codeBadName, "invalid flow name %q: use letters, digits, '.', '_' and '-', at most 64", name)
		return
	}
	if want, local := expectedName(d.main); local && name != want {
		d.report(d.name, codeNameMismatch, "the name is %q, but flows are found by their file: "+
			"write name: %s, or rename the file", name, want)
	}
}

// expectedName returns the name that the flow in a project's flow file must have.
func expectedName(file string) (name string, local bool) {
	file = slashed(file)
	dir, base := path.Split(file)
	dir = path.Clean(dir)
	stem := strings.TrimSuffix(base, path.Ext(base))
	if isFlowDir(dir) {
		return stem, true
	}
	if stem == "index" && isFlowDir(path.Dir(dir)) {
		return path.Base(dir), true
	}
	return "", false
}

func checkRoleNames(d *draft) {
	for _, r := range d.roles {
		switch {
		case strings.HasPrefix(r.name, "$"), flow.IsReserved(r.name):
			d.report(r.key, codeReservedRole, "the name %q is reserved", r.name)
		case !flow.IsRoleName(r.name):
			d.report(r.key, codeBadName, "invalid role name %q: use letters, digits, '.', '_' and '-', at most 64",
				r.name)
		}
	}
}

func checkPins(d *draft) {
	pins := resolve(d.child(d.root, []string{"context", "pin"})).Content
	for i, name := range d.def.Context.Pin {
		if name != "" && !d.isRole(name) {
			d.report(pins[i], codeUnknownRole, "context.pin names the unknown role %q%s", name, d.didYouMean(name))
		}
	}
}

func (d *draft) isRole(name string) bool { _, ok := d.def.Roles[name]; return ok }

func (d *draft) isFork(name string) bool { _, ok := d.def.Forks[name]; return ok }

func (d *draft) isJoin(name string) bool { _, ok := d.def.Joins[name]; return ok }

func (d *draft) isGate(name string) bool { _, ok := d.def.Gates[name]; return ok }

// isNode reports whether a name is that of a node, not counting the reserved ones.
func (d *draft) isNode(name string) bool {
	return d.isRole(name) || d.isFork(name) || d.isJoin(name) || d.isGate(name)
}

func (d *draft) didYouMean(name string) string {
	if near := text.Nearest(name, slices.Sorted(maps.Keys(d.def.Roles))); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// checkSchemas compiles each frontmatter and reports variants that do not fix $status.
func checkSchemas(d *draft) {
	for i := range d.roles {
		r := &d.roles[i]
		data := d.def.Roles[r.name].Frontmatter
		if r.schemaNode == nil || data == nil {
			continue
		}
		root, err := schema.Compile(data)
		if err != nil {
			d.badSchema(r, err)
			continue
		}
		r.schema = schema.Read(root)
		for _, v := range r.schema.Unfixed() {
			switch {
			case v.At != nil:
				d.report(d.child(r.schemaNode, v.At), codeOneOfStatus, "%s cannot be a $status of role %s: write a text "+
					"that is not empty, such as done", schema.Brief(v.Value), r.name)
			case v.Branch != nil:
				d.report(d.child(r.schemaNode, v.Branch), codeOneOfStatus,
					"this variant of role %s does not fix $status: add $status: {const: …}", r.name)
			default:
				d.warn(r.keys["frontmatter"].key, codeOneOfStatus, "the schema of role %s does not fix $status; it is routed on "+
					"what the graph lists", r.name)
			}
		}
	}
}

// checkReservedProperties reports a field named _body, which is reserved for the text after the
// front matter.
func checkReservedProperties(d *draft) {
	for _, r := range d.roles {
		if r.schemaNode != nil {
			d.reservedIn(r.schemaNode, map[*yaml.Node]bool{})
		}
	}
}

func (d *draft) reservedIn(schema *yaml.Node, seen map[*yaml.Node]bool) {
	schema = resolve(schema)
	if seen[schema] {
		return
	}
	seen[schema] = true
	for _, e := range d.entries(schema) {
		switch resolve(e.key).Value {
		case "properties":
			for _, p := range d.entries(e.val) {
				if resolve(p.key).Value == "_body" {
					d.report(p.key, codeReservedProp, "_body is the text of the output and cannot be a field")
				}
			}
		case "oneOf", "anyOf", "allOf":
			for _, b := range resolve(e.val).Content {
				d.reservedIn(b, seen)
			}
		}
	}
}

func checkStart(d *draft) {
	if d.graph == nil {
		if !d.meant["graph"] {
			d.report(d.root, codeStartMissing, "a flow needs a graph with $START")
		}
		return
	}
	if _, ok := d.def.Graph[flow.Start]; !ok && d.blind && len(d.nodes) == 0 {
		return // the graph itself was reported
	}
	i := slices.IndexFunc(d.nodes, func(n nodeSite) bool { return n.name == flow.Start })
	if i < 0 {
		d.report(d.graph, codeStartMissing, "the graph has no $START")
		return
	}
	n := d.nodes[i]
	if _, ok := d.def.Graph[flow.Start]["new"]; !ok {
		d.report(n.key, codeStartNeedsNew, "$START needs the route new")
	}
	for _, rs := range n.routes {
		switch rs.status {
		case "new", "resume":
		case "_":
			d.report(rs.key, codeOldFormat, `"_" is of an older format: write new`)
		default:
			d.report(rs.key, codeExtraRoute, "$START has only the routes new and resume")
		}
	}
}

func checkReservedNodes(d *draft) {
	for _, n := range d.nodes {
		if n.name == flow.EndNode && len(n.routes) > 0 {
			d.report(n.key, codeEndHasRoutes, "nothing follows $END")
		}
		if n.name == flow.Suspend {
			d.report(n.key, codeSuspendNode, "$SUSPEND is a status, not a node")
		}
		for _, rs := range n.routes {
			if rs.status == flow.Suspend {
				d.report(rs.key, codeSuspendNode, "$SUSPEND is never routed: the role runs again when a person "+
					"has answered")
			}
			if rs.Role == flow.Suspend {
				d.report(rs.at("role"), codeSuspendNode, "$SUSPEND is a status, not a node a route can lead to")
			}
		}
	}
}

// checkTargets reports names in the graph that are not nodes.
func checkTargets(d *draft) {
	for _, n := range d.nodes {
		if !strings.HasPrefix(n.name, "$") && !d.isNode(n.name) {
			d.report(n.key, codeUnknownRole, "the graph has the unknown role %q%s", n.name, d.didYouMean(n.name))
		} else if strings.HasPrefix(n.name, "$") && n.name != flow.Start && n.name != flow.EndNode && n.name != flow.Suspend {
			d.report(n.key, codeUnknownRole, "the graph has the unknown node %q", n.name)
		}
		for _, rs := range n.routes {
			switch {
			case rs.Role == "" || rs.Role == flow.EndNode || rs.Role == flow.Suspend || d.isNode(rs.Role):
			case rs.Role == flow.Start:
				d.report(rs.at("role"), codeUnknownRole, "no route may lead to $START")
			default:
				d.report(rs.at("role"), codeUnknownRole, "graph.%s.%s leads to the unknown role %q%s", n.name, rs.status,
					rs.Role, d.didYouMean(rs.Role))
			}
		}
	}
}

func checkRolesInGraph(d *draft) {
	for _, r := range d.roles {
		if _, ok := d.def.Graph[r.name]; !ok && !d.def.Roles[r.name].Chat {
			d.notInGraph(r.key, "role", r.name)
		}
	}
}

// notInGraph reports a node without routes, unless the graph itself was reported.
func (d *draft) notInGraph(key *yaml.Node, what, name string) {
	if d.graph != nil && !(d.blind && len(d.nodes) == 0) {
		d.report(key, codeNotInGraph, "%s %s has no routes in the graph", what, name)
	}
}

// checkStatuses compares the statuses that a role can have with those that its node routes.
func checkStatuses(d *draft) {
	for _, r := range d.roles {
		n, ok := d.node(r.name)
		if !ok || n.unread {
			continue
		}
		var want, may []string // statuses that must and may be routed
		open := true
		switch {
		case r.schema != nil:
			may, want, open = r.schema.Statuses()
		case r.schemaNode != nil:
			continue // the schema itself was reported
		case r.calls() != nil:
			want, open = []string{flow.CallDone}, false
		}
		if r.calls() != nil {
			may = append(may, flow.CallStatuses...)
		}
		want = append(want, d.def.Roles[r.name].ExitStatuses()...)
		for _, st := range unique(want) {
			if _, ok := d.def.Graph[r.name][st]; !ok {
				d.report(n.key, codeMissingRoute, "role %s can return %q, which has no route", r.name, st)
			}
		}
		for _, rs := range n.routes {
			if all := unique(want, may); !open && rs.status != flow.Suspend && !slices.Contains(all, rs.status) {
				has := strings.Join(all, ", ")
				if has == "" {
					has = "none, since its schema accepts no output"
				}
				d.report(rs.key, codeExtraRoute, "role %s never returns %q; it has %s", r.name, rs.status, has)
			}
		}
	}
}

// unique returns the union of lists, sorted.
func unique(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

func (d *draft) node(name string) (nodeSite, bool) {
	for _, n := range d.nodes {
		if n.name == name {
			return n, true
		}
	}
	return nodeSite{}, false
}

func checkPrompts(d *draft) {
	for _, n := range d.nodes {
		for _, rs := range n.routes {
			if d.isRole(rs.Role) && strings.TrimSpace(rs.Prompt) == "" &&
				(rs.at("prompt") == nil || !isBroken(resolve(rs.at("prompt")))) {
				at := rs.val
				if prompt := rs.at("prompt"); prompt != nil {
					at = prompt
				}
				d.report(at, codePromptMissing, "graph.%s.%s leads to a role and needs a prompt", n.name, rs.status)
			}
		}
	}
}

func checkCodes(d *draft) {
	for _, n := range d.nodes {
		for _, rs := range n.routes {
			switch {
			case rs.at("code") == nil:
			case rs.Role != flow.EndNode:
				d.report(rs.at("code"), codeBadCode, "only a route to $END has a code")
			case rs.Code > 125:
				d.report(rs.at("code"), codeBadCode, "a code is from 0 to 125, not %d: the rest are reserved for how a "+
					"task was ended", rs.Code)
			}
		}
	}
}
