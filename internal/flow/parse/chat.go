package parse

import (
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/schema"
)

// checkChatRole reports keys that a chat role cannot have: its output is not parsed, and it cannot
// be a call.
func (d *draft) checkChatRole(site *roleSite, role flow.Role) {
	for _, other := range []struct {
		key  string
		node bool
	}{{"frontmatter", site.schemaNode != nil}, {"flow", site.calls() != nil}, {"plan", role.Plan}} {
		if other.node {
			d.report(site.keys["chat"].key, codeBadChat, "role %s is a chat role: it cannot have %s", site.name, other.key)
		}
	}
}

// checkChats reports routes from chat roles: the person's next input decides what follows.
func checkChats(d *draft) {
	for _, r := range d.roles {
		if n, ok := d.node(r.name); ok && d.def.Roles[r.name].Chat && len(n.routes) > 0 {
			d.report(n.key, codeBadChat, "role %s is a chat role: it cannot have routes", r.name)
		}
	}
}

// setPlanRole gives a plan role the schema of plans, and reports keys that it cannot have.
func (d *draft) setPlanRole(site *roleSite, role *flow.Role) {
	for _, other := range []struct {
		key  string
		node bool
	}{
		{"frontmatter", site.schemaNode != nil}, {"flow", site.calls() != nil},
		{"agent's output", role.Agent != nil && role.Agent.Inline != nil && role.Agent.Inline.Output != ""},
	} {
		if other.node {
			d.report(site.keys["plan"].key, codeBadPlan, "role %s is a planner: Plait sets its %s", site.name, other.key)
		}
	}
	role.Frontmatter = flow.Schemas()["actions"]
	site.schemaNode = nil
	var finished any = flow.Finished
	site.schema = schema.OfFields(map[string]*jsonschema.Schema{"$status": {Const: &finished}, "summary": schema.Anything,
		"report": schema.Anything, "paths": schema.Anything})
}
