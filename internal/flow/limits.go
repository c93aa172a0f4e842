package flow

import "go.yaml.in/yaml/v4"

// DecodeLimits reads a limits mapping as written in a configuration file. What it does not
// set stays 0. The problems name file; node's own lines are used.
func DecodeLimits(node *yaml.Node, file string) (Limits, []Problem) {
	d := &draft{reader: newReader(nil, file), def: &Definition{}}
	d.normalize(node, []string{file})
	d.limits(node)
	return d.def.Limits, sorted(file, d.problems)
}
