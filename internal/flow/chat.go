package flow

// ChatFlow is the built-in flow of a conversation with one agent.
const ChatFlow = "chat"

// checkChatRole reports keys that a chat role cannot have: its output is not parsed, and it cannot
// be a call.
func (d *draft) checkChatRole(site *roleSite) {
	for _, other := range []struct {
		key  string
		node bool
	}{{"frontmatter", site.frontmatter != nil}, {"flow", site.flow != nil}, {"plan", site.plan != nil}} {
		if other.node {
			d.report(site.chat, codeBadChat, "role %s is a chat role: it cannot have %s", site.name, other.key)
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
