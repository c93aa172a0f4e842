package parse

import (
	"path"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/foreign"
)

// borrowed returns what a role is before its own keys are read: the defaults, or what the file says that its key from
// names.
func (d *draft) borrowed(n *yaml.Node) flow.Role {
	role := flow.Role{Access: flow.Read, Retry: flow.Retry{Max: flow.DefaultRetries}}
	for _, e := range d.entries(n) {
		if resolve(e.key).Value != "from" {
			continue
		}
		name := d.text(e.val, "from")
		if name == "" {
			return role
		}
		if clean := path.Clean(name); strings.HasPrefix(clean, "../") || clean == ".." || path.IsAbs(clean) ||
			strings.Contains(name, `\`) {
			d.report(e.val, foreign.CodeBad, "%q is outside the project: it is a path below the directory with .plait or "+
				".workflows", name)
			return role
		}
		if d.src == nil {
			d.report(e.val, foreign.CodeBad, "read %q: no files can be read here", name)
			return role
		}
		file, _, _ := strings.Cut(name, "#")
		file = path.Join(d.project(), file)
		data, err := d.src.ReadFile(file)
		if err != nil {
			d.report(e.val, foreign.CodeBad, "read %q: %v", name, err)
			return role
		}
		borrowed, problems := foreign.Role(name, file, data)
		for _, p := range problems {
			d.add(p)
		}
		return borrowed
	}
	return role
}

// project returns the directory below which the flow's project has its files.
func (r *reader) project() string {
	switch {
	case path.Base(r.boundary) == ".workflows":
		return path.Dir(r.boundary)
	case isFlowDir(r.boundary):
		return path.Dir(path.Dir(r.boundary))
	}
	return r.boundary
}
