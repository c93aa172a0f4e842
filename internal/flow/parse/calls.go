package parse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/plait-run/plait/internal/flow"
)

// maxFlows limits the flows reachable from one flow by calls.
const maxFlows = 256

// checkCalls checks a call as far as possible without the called flow.
func checkCalls(d *draft) {
	for _, r := range d.roles {
		if r.calls() == nil {
			continue
		}
		if agent := r.keys["agent"].key; agent != nil {
			d.report(agent, codeBadCall, "role %s runs a sub-flow: it cannot have an agent too", r.name)
		}
		for _, key := range []string{"model", "effort", "mcp"} {
			if e := r.keys[key]; e.key != nil && !isNull(resolve(e.val)) {
				d.report(e.key, codeBadCall, "role %s runs a sub-flow, whose roles have their own %s", r.name, key)
			}
		}
		if name := d.def.Roles[r.name].Flow; name != "" || isText(resolve(r.calls())) {
			if why := badCall(name); why != "" {
				d.report(r.calls(), codeBadCall, "role %s: %s", r.name, why)
			}
		}
	}
}

// badCall returns what is wrong with the name of a called flow, or "".
func badCall(name string) string {
	switch {
	case name == "":
		return "flow names no flow"
	case !isPath(name) && !flow.IsName(name):
		return fmt.Sprintf("%q is neither a flow's name nor a path", name)
	case path.IsAbs(name) || strings.ContainsAny(name, "\\:\x00"):
		return fmt.Sprintf("%q is not a path relative to the flow's file", name)
	}
	return ""
}

func isPath(name string) bool {
	ext := path.Ext(name)
	return strings.ContainsAny(name, `/\`) || ext == ".yaml" || ext == ".yml"
}

// LoadAll reads the flow in file and every flow reachable from it by calls, each once; flows may
// call each other recursively. The flow in file is the first of flows. In all of them [Role.Flow]
// is the name of one of flows, and names are unique. flows is nil if one of the problems is an
// error. Problems name their file; those of file come first.
//
// A called flow is looked up next to the calling file, then with find, then with kept, then among
// the built-in flows; a path is relative to the calling file.
//
// find is [Find] with its last argument bound; it must always return the same name for a file.
// kept returns a flow that is not stored in a file, followed by those it calls, with each
// Role.Flow resolved, or nothing. Either may be nil.
func LoadAll(src Source, file string, find func(dir, name string) (file string, ok bool),
	kept func(name string) ([]*flow.Definition, error)) (flows []*flow.Definition, problems []flow.Problem) {
	c := &closure{find: find, stored: kept, loaded: map[string]*draft{}, origin: map[string]string{},
		known: map[string]*flow.Definition{}, storedByName: map[string]*flow.Definition{}}
	if _, err := c.load(src, file); err != nil {
		return nil, []flow.Problem{unreadable(file, err)}
	}
	for len(c.todo) > 0 {
		d := c.todo[0]
		c.todo = c.todo[1:]
		c.resolveCalls(d)
		c.problems = append(c.problems, d.problems...)
	}
	problems = sorted(file, c.problems)
	if flow.Failed(problems) {
		return nil, problems
	}
	return c.flows, problems
}

func unreadable(file string, err error) flow.Problem {
	return flow.Problem{File: file, Line: 1, Col: 1, Code: codeUnreadable, Message: err.Error()}
}

// A closure is a flow and all flows reachable from it by calls, while they are loaded.
type closure struct {
	find         func(dir, name string) (string, bool)
	stored       func(name string) ([]*flow.Definition, error)
	todo         []*draft
	loaded       map[string]*draft           // by file
	flows        []*flow.Definition          // in discovery order
	origin       map[string]string           // name → where it was read from, for messages
	known        map[string]*flow.Definition // by name
	storedByName map[string]*flow.Definition // by the name in the call
	problems     []flow.Problem
}

// load reads a flow file, once. The draft is nil if the file cannot be parsed.
func (c *closure) load(src Source, file string) (*draft, error) {
	key := filepath.Clean(file)
	if _, own := src.(builtInSource); own {
		key = "\x00" + key // cannot be confused with a file on disk
	}
	if d, ok := c.loaded[key]; ok {
		return d, nil
	}
	data, err := src.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := newReader(src, file)
	d := r.draft(data)
	c.loaded[key] = d
	if d == nil {
		c.problems = append(c.problems, r.problems...)
		return nil, nil
	}
	c.todo = append(c.todo, d)
	if len(c.loaded) == 1 {
		c.add(d.def, file)
	}
	return d, nil
}

// add adds a flow. If another flow has its name, add returns where that one is from.
func (c *closure) add(def *flow.Definition, origin string) (taken string) {
	switch have, ok := c.known[def.Name]; {
	case have == def || def.Name == "":
	case ok:
		return c.origin[def.Name]
	default:
		c.known[def.Name], c.origin[def.Name] = def, origin
		c.flows = append(c.flows, def)
	}
	return ""
}

// resolveCalls finds every flow that the roles of d call, and that their plans need.
func (c *closure) resolveCalls(d *draft) {
	if len(d.def.Plans()) > 0 {
		c.addWorkerFlow(d)
	}
	for _, r := range d.roles {
		role := d.def.Roles[r.name]
		if r.calls() == nil || badCall(role.Flow) != "" {
			continue
		}
		if len(c.loaded) > maxFlows || len(c.flows) > maxFlows {
			d.report(r.calls(), codeTooLarge, "%s reaches more than %d flows", c.flows[0].Name, maxFlows)
			return
		}
		def, origin := c.findCallee(d, r, role.Flow)
		if def == nil {
			continue
		}
		if taken := c.add(def, origin); taken != "" {
			d.report(r.calls(), codeCallNameTaken, "flow %s of %s has the name of the one of %s; the flows of a run "+
				"must have different names", def.Name, origin, taken)
			continue
		}
		role.Flow = def.Name
		d.def.Roles[r.name] = role
	}
}

// addWorkerFlow adds the flow that the actions of plans run. It is always the built-in one.
func (c *closure) addWorkerFlow(d *draft) {
	if next, err := c.load(builtInSource{}, builtInFile(flow.WorkerFlow)); err == nil && next != nil {
		if taken := c.add(next.def, "the built-in flow"); taken != "" {
			d.report(d.root, codeCallNameTaken, "flow %s of %s has the name of the built-in one, which plans need",
				flow.WorkerFlow, taken)
		}
	}
}

// findCallee finds the flow that a role calls. If there is none, it reports the reason as a
// problem.
func (c *closure) findCallee(d *draft, r roleSite, name string) (def *flow.Definition, origin string) {
	if target := slashed(path.Join(path.Dir(slashed(d.main)), name)); isPath(name) && !d.mayCall(target) {
		d.report(r.calls(), codeBadCall, "role %s: %q is outside %s and the project's flows", r.name, name,
			d.boundary)
		return nil, ""
	}
	src := d.src
	file, ok := c.findFile(d, name)
	switch {
	case ok:
	case isPath(name):
		d.report(r.calls(), codeCallNotFound, "role %s calls %s: no such file", r.name, name)
		return nil, ""
	case name == d.def.Name:
		return d.def, d.main
	default:
		if def, settled := c.addStored(d, r, name); settled {
			return def, "what is kept under " + name
		}
		if _, ok := BuiltIn(name); !ok {
			d.report(r.calls(), codeCallNotFound, "role %s calls %s: there is no such flow next to this file or in "+
				"the search path of plait run", r.name, name)
			return nil, ""
		}
		file, src = builtInFile(name), builtInSource{}
	}
	next, err := c.load(src, file)
	if err != nil {
		d.report(r.calls(), codeCallNotFound, "role %s calls %s: %v", r.name, name, err)
	}
	if next == nil {
		return nil, ""
	}
	return next.def, file
}

// findFile finds the file of a flow that d calls. Built-in flows call only built-in flows.
func (c *closure) findFile(d *draft, name string) (file string, ok bool) {
	if _, own := d.src.(builtInSource); own || c.find == nil {
		return "", false
	}
	dir := filepath.Dir(d.main)
	if !isPath(name) {
		if file, ok := c.find(dir, "./"+name); ok {
			return file, true
		}
	}
	return c.find(dir, name)
}

// addStored adds a flow that is not stored in files, and all flows that it calls. settled reports
// whether the search is over: the flow was found, or an error was reported.
func (c *closure) addStored(d *draft, r roleSite, name string) (def *flow.Definition, settled bool) {
	if _, own := d.src.(builtInSource); own || c.stored == nil {
		return nil, false
	}
	if have, ok := c.storedByName[name]; ok {
		return have, true
	}
	flows, err := c.stored(name)
	if err != nil {
		d.report(r.calls(), codeCallNotFound, "role %s calls %s: %v", r.name, name, err)
	}
	if err != nil || len(flows) == 0 {
		return nil, err != nil
	}
	for i, f := range flows {
		have, ok := c.known[f.Name]
		switch {
		case ok && sameFlow(have, f):
			flows[i] = have // two stored flows call the same third one
		case i > 0:
			if taken := c.add(f, "what is kept under "+name); taken != "" {
				d.report(r.calls(), codeCallNameTaken, "%s calls a flow %s, which has the name of the one of %s; the "+
					"flows of a run must have different names", name, f.Name, taken)
			}
		}
	}
	c.storedByName[name] = flows[0]
	return flows[0], true
}

func sameFlow(a, b *flow.Definition) bool {
	x, xerr := json.Marshal(a)
	y, yerr := json.Marshal(b)
	return xerr == nil && yerr == nil && bytes.Equal(x, y)
}

// mayCall reports whether a file may be called: within the limits of includes, or, outside of
// them, if it is a flow of the file's own project.
func (r *reader) mayCall(target string) bool {
	if isWithin(r.boundary, target) {
		return true
	}
	for d := path.Dir(target); d != "." && d != "/" && path.Base(d) != ".."; d = path.Dir(d) {
		if isFlowDir(d) {
			project := path.Dir(d)
			if path.Base(d) == "flows" {
				project = path.Dir(project)
			}
			return isAbove(project, path.Dir(slashed(r.main)))
		}
	}
	return false
}

// isAbove reports whether dir is top or below it; both are clean. If they begin with different
// numbers of "..", that is known only if nothing follows the dots of top.
func isAbove(top, dir string) bool {
	for strings.HasPrefix(top+"/", "../") && strings.HasPrefix(dir+"/", "../") {
		top, dir = strings.TrimPrefix(top[2:], "/"), strings.TrimPrefix(dir[2:], "/")
	}
	switch {
	case top == "" || top == ".":
		return !strings.HasPrefix(dir+"/", "../") && !path.IsAbs(dir)
	case strings.HasPrefix(top+"/", "../"):
		return strings.Trim(top, "./") == "" && !path.IsAbs(dir)
	}
	return dir == top || strings.HasPrefix(dir, strings.TrimSuffix(top, "/")+"/")
}
