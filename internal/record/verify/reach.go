package verify

import "github.com/plait-run/plait/internal/record/dag"

// A root is an object that a row names, or that the caller asked for.
type root struct {
	hash dag.Hash
	what string // with %s for the id
	id   string
}

// markReached marks and returns the objects reachable from roots, and reports those among them that are
// missing; an unreachable object may refer to one that was collected. It also reports the objects' own
// problems, reachable or not.
func (c *check) markReached(roots []root) []*object {
	var reached []*object
	type visit struct {
		root
		by *object // nil: a root
	}
	var stack []visit
	for _, r := range roots {
		stack = append(stack, visit{root: r})
	}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		o := c.objects[v.hash]
		if o == nil || o.reached {
			continue // the zero hash, or seen
		}
		o.reached = true
		reached = append(reached, o)
		if o.missing {
			if v.by != nil {
				c.absent(o.hash, "missing, named by %s %s", v.by.typ, v.by.hash)
			} else {
				c.absent(o.hash, "missing, the "+v.what, v.id)
			}
		}
		for _, h := range o.refs {
			stack = append(stack, visit{root: root{hash: h}, by: o})
		}
	}
	for _, o := range c.objects {
		if !o.missing {
			c.examined++
		}
		switch {
		case o.problem == nil || o.missing:
		case o.problem.Kind == redacted:
			c.checkRedacted(o)
		default:
			c.problems = append(c.problems, *o.problem)
		}
	}
	return reached
}
