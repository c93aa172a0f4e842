package parse

import (
	"cmp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
)

// A gateSite is a gate being parsed.
type gateSite struct {
	name     string
	key      *yaml.Node
	question *yaml.Node
	unread   bool // its kind or onTimeout is unknown, so its routes are not checked
	flow.GateSpec
}

func (d *draft) decodeGates(n *yaml.Node) {
	for _, e := range d.mapping(n, "gates") {
		g := &gateSite{name: resolve(e.key).Value, key: e.key}
		d.gateSpec(g, e.val)
		d.gates = append(d.gates, g)
		set(&d.def.Gates, g.name, g.GateSpec)
	}
}

func (d *draft) gateSpec(g *gateSite, n *yaml.Node) {
	g.Kind = flow.GateApproval
	var late entry
	before := len(d.problems)
	keys := d.decode(n, "gate "+g.name, &g.GateSpec, map[string]func(entry){
		"kind": func(e entry) {
			known := len(d.problems)
			g.Kind = d.choice(e.val, "kind", codeBadGate, flow.GateApproval, flow.GateInput)
			g.unread = g.unread || len(d.problems) > known
		},
		"options": func(e entry) { g.Options = d.options(g, e.val) },
		"onTimeout": func(e entry) {
			if !isNull(resolve(e.val)) {
				late, g.OnTimeout = e, d.word(e.val, "onTimeout")
			}
		},
	})
	g.question = keys["question"].val
	if rn := resolve(n); isBroken(rn) || rn.Kind != yaml.MappingNode && len(d.problems) > before {
		g.unread = true // reported
		return
	}
	if strings.TrimSpace(g.Question) == "" && (g.question == nil || isText(resolve(g.question)) ||
		isNull(resolve(g.question))) {
		d.report(cmp.Or(g.question, g.key), codeMissingKey, "gate %s needs a question", g.name)
	}
	d.gateTimeout(g, keys["timeout"], late)
}

// gateTimeout checks what the flow specifies for a gate that is not answered in time.
func (d *draft) gateTimeout(g *gateSite, timeout, late entry) {
	switch {
	case late.val != nil && (g.OnTimeout == "" || strings.HasPrefix(g.OnTimeout, "$")):
		g.unread, g.OnTimeout = true, ""
		if rn := resolve(late.val); rn.Kind == yaml.ScalarNode && !isBroken(rn) {
			d.report(late.val, codeBadGate, "onTimeout is a status that the gate routes, not %q", rn.Value)
		}
	case late.val != nil && g.Kind == flow.GateApproval && g.OnTimeout == flow.Approved:
		g.unread, g.OnTimeout = true, ""
		d.report(late.val, codeBadGate, "only a person can approve: an approval without an answer in time cannot "+
			"count as approved")
	case late.val != nil && timeout.val == nil:
		d.report(late.key, codeBadGate, "onTimeout counts only with a timeout")
	case late.val != nil:
	case g.Kind == flow.GateApproval:
		g.OnTimeout = flow.Rejected
	case g.Timeout > 0 && !g.unread:
		g.unread = true
		d.report(timeout.key, codeMissingKey, "gate %s is a question with a timeout: it needs onTimeout, the "+
			"status it then takes", g.name)
	}
}

// options reads suggested answers, which must be distinct.
func (d *draft) options(g *gateSite, n *yaml.Node) []string {
	list := d.list(n, "options", d.word)
	seen := map[string]bool{}
	for i, o := range list {
		at := resolve(n).Content[i]
		switch {
		case strings.TrimSpace(o) == "" && isText(resolve(at)):
			d.report(at, codeBadGate, "an option of gate %s is empty", g.name)
		case seen[o] && o != "":
			d.report(at, codeBadGate, "gate %s has the option %q twice", g.name, o)
		}
		seen[o] = true
	}
	return list
}
