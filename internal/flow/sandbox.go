package flow

import (
	"path"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A Sandbox is what the commands of an agent may do in addition to the role's access.
type Sandbox struct {
	// Write lists additional writable places: absolute, below "~/", or in the thread's tree.
	Write []string `json:"write"`
	// Network is NetworkOn, NetworkOff, or "" for the default, which is off.
	Network string            `json:"network"`
	Env     map[string]string `json:"env"`
	Pass    []string          `json:"pass"` // variables of Plait's own environment
}

// The values of Sandbox.Network.
const (
	NetworkOn  = "on"
	NetworkOff = "off"
)

// With returns s overridden by the keys of over. Either may be nil.
func (s *Sandbox) With(over *Sandbox) *Sandbox {
	if s == nil || over == nil {
		if s == nil {
			return over
		}
		return s
	}
	out := *s
	if over.Write != nil {
		out.Write = over.Write
	}
	if over.Network != "" {
		out.Network = over.Network
	}
	if over.Env != nil {
		out.Env = over.Env
	}
	if over.Pass != nil {
		out.Pass = over.Pass
	}
	return &out
}

// Unboxed returns why an agent of a kind cannot have a sandbox, or "" if it can.
func Unboxed(kind string) string {
	if kind == "command" {
		return "an agent of kind command is not restricted and can have no sandbox; its variables are its " +
			"own env and pass"
	}
	return ""
}

func (r *reader) sandbox(n *yaml.Node) *Sandbox {
	rn := resolve(n)
	if isNull(rn) || isBroken(rn) {
		return nil
	}
	s := &Sandbox{}
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
	if s != NetworkOn && s != NetworkOff {
		r.report(n, codeBadAgent, "network is on or off, not %q", s)
	}
	return s
}

// checkSandbox reports a role's sandbox that cannot be enforced.
func (d *draft) checkSandbox(site *roleSite, role Role) {
	switch s := role.Sandbox; {
	case s == nil:
	case role.Agent != nil && role.Agent.Inline != nil && Unboxed(role.Agent.Inline.Kind) != "":
		d.report(site.sandbox, codeBadAgent, "%s", Unboxed(role.Agent.Inline.Kind))
	case role.Flow != "":
		d.report(site.sandbox, codeBadAgent, "the flow does the work of role %s: its roles have their own sandbox", site.name)
	case role.Access == Full && (s.Write != nil || s.Network == NetworkOff):
		d.report(site.sandbox, codeBadAgent, "access: full has no sandbox: nothing would keep write and network")
	}
}
