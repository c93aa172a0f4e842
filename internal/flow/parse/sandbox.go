package parse

import (
	"path"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
)

func (r *reader) sandbox(n *yaml.Node) *flow.Sandbox {
	rn := resolve(n)
	if isNull(rn) || isBroken(rn) {
		return nil
	}
	s := &flow.Sandbox{}
	network := func(e entry) {
		if resolve(e.val).Kind == yaml.SequenceNode {
			r.report(e.val, codeBadAgent, "network is on or off: no agent here can restrict it to a list of hosts")
			return
		}
		if s.Network = r.text(e.val, "network"); s.Network != flow.NetworkOn && s.Network != flow.NetworkOff {
			r.report(e.val, codeBadAgent, "network is on or off, not %q", s.Network)
		}
	}
	keys := r.decode(n, "sandbox", s, map[string]func(entry){"network": network})
	r.checkPass(keys["pass"].val, s.Pass)
	for i, place := range s.Write {
		at, clean := resolve(keys["write"].val).Content[i], path.Clean(place)
		switch {
		case place == "" || strings.ContainsRune(place, 0):
			r.report(at, codeBadAgent, "%q is not a path", place)
		case clean == "/" || clean == "~":
			r.report(at, codeBadAgent, "%q is too much to write to; access: full has no sandbox at all", place)
		case clean == ".." || strings.HasPrefix(clean, "../") || strings.HasPrefix(clean, "~/.."):
			r.report(at, codeBadAgent, "%q leaves where it starts: give an absolute path", place)
		}
	}
	return s
}

// checkSandbox reports a role's sandbox that cannot be enforced.
func (d *draft) checkSandbox(site *roleSite, role flow.Role) {
	switch s := role.Sandbox; {
	case s == nil:
	case role.Agent != nil && role.Agent.Inline != nil && flow.Unboxed(role.Agent.Inline.Kind) != "":
		d.report(site.keys["sandbox"].key, codeBadAgent, "%s", flow.Unboxed(role.Agent.Inline.Kind))
	case role.Flow != "":
		d.report(site.keys["sandbox"].key, codeBadAgent, "the flow does the work of role %s: its roles have "+
			"their own sandbox", site.name)
	case role.Access == flow.Full && (s.Write != nil || s.Network == flow.NetworkOff):
		d.report(site.keys["sandbox"].key, codeBadAgent, "access: full has no sandbox: nothing would keep write and network")
	}
}
