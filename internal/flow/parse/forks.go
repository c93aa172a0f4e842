package parse

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
)

// maxPaths limits the paths of a fork: with aliases, a few bytes make a long list.
const maxPaths = 256

// A forkSite is a fork being parsed. If it is damaged, not all of its paths could be read, and
// problems that only follow from that are not reported.
type forkSite struct {
	name    string
	key     *yaml.Node
	paths   []pathSite // parallel to ForkSpec.Paths
	damaged bool
	older   string    // its forkId, if its path ids are derived from that
	join    *joinSite // nil when it has none
	twice   bool      // several joins have its paths
	flow.ForkSpec
}

// A pathSite has the positions of a path's parts.
type pathSite struct{ id, child, prompt *yaml.Node }

// A joinSite is a join being parsed.
type joinSite struct {
	name      string
	key       *yaml.Node
	keys      map[string]entry // what it has
	threshold *yaml.Node       // nil if it has none
	ids       []*yaml.Node     // parallel to JoinSpec.PathIDs
	damaged   bool
	unread    bool // its threshold is not a number, or its strategy none
	byFork    bool // its only id is a forkId
	fork      *forkSite
	extra     bool // its fork already has a join
	flow.JoinSpec
}

// decodeForks reads the forks in each of their three forms.
func (d *draft) decodeForks(n *yaml.Node) {
	for _, e := range d.mapping(n, "forks") {
		f := &forkSite{name: resolve(e.key).Value, key: e.key}
		d.fork(f, e.val)
		d.forks = append(d.forks, f)
	}
}

func (d *draft) fork(f *forkSite, n *yaml.Node) {
	f.Strategy = flow.Parallel
	var form struct {
		Paths    *yaml.Node `json:"forkPaths"`
		IDs      *yaml.Node `json:"forkPathIds"`
		Children *yaml.Node `json:"childNodeIds"`
		Older    *yaml.Node `json:"forkId"`
	}
	keys := d.decode(n, "fork "+f.name, &form, map[string]func(entry){"forkStrategy": func(e entry) {
		f.Strategy = d.choice(e.val, "forkStrategy", codeBadStrategy, flow.Parallel, flow.Serial)
	}})
	bad := func(at *yaml.Node, format string, args ...any) {
		f.damaged = true
		d.report(at, codeForkPaths, format, args...)
	}
	switch rn := resolve(n); {
	case rn.Kind != yaml.MappingNode && !isNull(rn):
		f.damaged = true // reported
	case form.Paths != nil && (form.IDs != nil || form.Children != nil || form.Older != nil):
		bad(keys["forkPaths"].key, "the paths of fork %s are written twice: forkPaths, and arrays beside it", f.name)
	case form.Paths != nil:
		d.forkPaths(f, form.Paths)
	case form.Children == nil && form.IDs == nil && form.Older == nil:
		bad(f.key, "fork %s has no paths: write forkPaths: [{pathId, childNodeId}]", f.name)
	case form.Children == nil:
		bad(f.key, "fork %s has no childNodeIds beside its path ids", f.name)
	case form.IDs != nil:
		if form.Older != nil {
			d.warn(keys["forkId"].key, codeOldFormat, "forkId is of an older format; it is ignored because forkPathIds is set")
		}
		names, roles := d.items(form.IDs, "forkPathIds"), d.items(form.Children, "childNodeIds")
		if len(names) != len(roles) {
			bad(keys["childNodeIds"].key, "fork %s has %d forkPathIds and %d childNodeIds; they belong together "+
				"one by one", f.name, len(names), len(roles))
			break
		}
		for i := range names {
			d.path(f, pathSite{id: names[i], child: roles[i]}, flow.BranchPath{ID: d.text(names[i], "a path id"),
				Child: d.text(roles[i], "childNodeId")})
		}
	case form.Older != nil:
		roles, id := d.items(form.Children, "childNodeIds"), d.text(form.Older, "forkId")
		for i := range roles {
			own := id
			if len(roles) > 1 && id != "" {
				own = fmt.Sprintf("%s-%d", id, i+1)
			}
			d.path(f, pathSite{id: form.Older, child: roles[i]}, flow.BranchPath{ID: own,
				Child: d.text(roles[i], "childNodeId")})
		}
		f.older = id
		if id != "" && len(roles) > 0 {
			d.warn(keys["forkId"].key, codeOldFormat, "forkId is of an older format; the paths of fork %s are called %s",
				f.name, strings.Join(f.pathIDs(), ", "))
		}
	default:
		bad(keys["childNodeIds"].key, "fork %s has no forkPathIds beside its childNodeIds", f.name)
	}
	if len(f.paths) == 0 && !f.damaged {
		bad(f.key, "fork %s has no paths", f.name)
	}
	if len(f.paths) > maxPaths {
		bad(f.key, "fork %s has %d paths, the most is %d", f.name, len(f.paths), maxPaths)
		f.paths, f.Paths = f.paths[:maxPaths], f.Paths[:maxPaths]
	}
}

// items returns the items of a list.
func (r *reader) items(n *yaml.Node, what string) []*yaml.Node {
	rn := resolve(n)
	if rn.Kind == yaml.SequenceNode {
		return rn.Content
	}
	if !isBroken(rn) {
		r.report(n, codeWrongType, "%s must be a list, not %s", what, kindOf(rn))
	}
	return nil
}

func (d *draft) forkPaths(f *forkSite, n *yaml.Node) {
	before := len(d.problems)
	for i, item := range d.items(n, "forkPaths") {
		what := fmt.Sprintf("path %d of fork %s", i+1, f.name)
		if rn := resolve(item); rn.Kind != yaml.MappingNode {
			f.damaged = true
			if !isBroken(rn) {
				d.report(item, codeForkPathItem, "%s must be {pathId, childNodeId, prompt}, not %s", what, kindOf(rn))
			}
			continue
		}
		var p flow.BranchPath
		keys := d.decode(item, what, &p, nil)
		at := pathSite{keys["pathId"].val, keys["childNodeId"].val, keys["prompt"].val}
		if at.id == nil || isNull(resolve(at.id)) {
			f.damaged = true
			d.report(item, codeForkPathItem, "%s has no pathId", what)
		}
		if at.child == nil || isNull(resolve(at.child)) {
			f.damaged = true
			d.report(item, codeForkPathItem, "%s has no childNodeId", what)
		}
		d.path(f, at, p)
	}
	f.damaged = f.damaged || len(d.problems) > before && len(f.paths) == 0
}

// path adds a path. It checks the id, since its position is known here.
func (d *draft) path(f *forkSite, at pathSite, p flow.BranchPath) {
	switch {
	case p.ID == "":
		f.damaged = true
		if at.id != nil && !isNull(resolve(at.id)) && isText(resolve(at.id)) {
			d.report(at.id, codeForkPathItem, "a path of fork %s has an empty id", f.name)
		}
	case !flow.IsRoleName(p.ID):
		d.report(at.id, codeForkPathItem, "invalid path id %q: use letters, digits, '.', '_' and '-', at most 64", p.ID)
	}
	f.paths, f.Paths = append(f.paths, at), append(f.Paths, p)
}

func isText(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" }

func (d *draft) decodeJoins(n *yaml.Node) {
	for _, e := range d.mapping(n, "joins") {
		j := &joinSite{name: resolve(e.key).Value, key: e.key}
		d.joinSpec(j, e.val)
		d.joins = append(d.joins, j)
	}
}

func (d *draft) joinSpec(j *joinSite, n *yaml.Node) {
	j.Strategy, j.Losers = flow.AllCompleted, flow.CancelLosers
	var ids, older *yaml.Node
	j.keys = d.decode(n, "join "+j.name, &j.JoinSpec, map[string]func(entry){
		"forkId":      func(e entry) { d.value(e.val, "", &older) },
		"forkPathIds": func(e entry) { d.value(e.val, "", &ids) },
		"joinStrategy": func(e entry) {
			j.Strategy = d.choice(e.val, "joinStrategy", codeBadStrategy, flow.AllCompleted, flow.AnyCompleted,
				flow.AllFailed, flow.AnyFailed, flow.SuccessCountThreshold)
			rn := resolve(e.val)
			j.unread = j.unread || !isNull(rn) && rn.Value != j.Strategy
		},
		"threshold": func(e entry) {
			if isNull(resolve(e.val)) {
				return
			}
			v, ok := d.count(e.val, "threshold")
			j.threshold, j.unread, j.Threshold = e.val, j.unread || !ok, int(v)
		},
		"losers": func(e entry) {
			j.Losers = d.choice(e.val, "losers", codeBadStrategy, flow.CancelLosers, flow.WaitForLosers)
		},
		"files": func(e entry) {
			if !isNull(resolve(e.val)) {
				j.Files = d.choice(e.val, "files", codeBadStrategy, flow.KeepFiles)
			}
		},
	})
	if ids != nil {
		j.ids = d.items(ids, "forkPathIds")
	}
	if rn := resolve(n); rn.Kind != yaml.MappingNode && !isNull(rn) {
		j.damaged = true // reported
		return
	}
	switch {
	case older != nil && len(j.ids) > 0:
		d.warn(j.keys["forkId"].key, codeOldFormat, "forkId is of an older format; it is ignored because forkPathIds is set")
	case older != nil:
		j.ids, j.byFork = []*yaml.Node{older}, true
	}
	if len(j.ids) > maxPaths {
		d.report(j.keys["forkPathIds"].key, codeForkPathIDs, "join %s has %d path ids, the most is %d", j.name,
			len(j.ids), maxPaths)
		j.ids, j.damaged = j.ids[:maxPaths], true
	}
	if len(j.ids) == 0 {
		j.damaged = true
		at := cmp.Or(j.keys["forkPathIds"].key, j.key)
		d.report(at, codeForkPathIDs, "join %s needs forkPathIds: the path ids of its fork, in the same order", j.name)
		return
	}
	for _, c := range j.ids {
		id := d.text(c, "an entry of forkPathIds")
		switch {
		case id == "":
			j.damaged = true
			if isText(resolve(c)) || isNull(resolve(c)) {
				d.report(c, codeForkPathIDs, "join %s names an empty path id", j.name)
			}
		case slices.Contains(j.PathIDs, id):
			j.damaged = true
			d.report(c, codeForkPathIDs, "join %s names path %q twice", j.name, id)
		}
		j.PathIDs = append(j.PathIDs, id)
	}
	if main := j.keys["mainPathId"].val; j.Main == "" && (main == nil || isNull(resolve(main))) {
		j.Main = j.PathIDs[0]
	}
}

// choice reads one of words; the first is the default. Any other word is reported as code.
func (d *draft) choice(n *yaml.Node, what, code string, words ...string) string {
	rn := resolve(n)
	if isNull(rn) || isBroken(rn) {
		return words[0]
	}
	if w := d.word(n, what); slices.Contains(words, w) {
		return w
	} else if rn.Kind == yaml.ScalarNode {
		d.report(n, code, "%s is %s, not %q", what, strings.Join(words, ", "), w)
	}
	return words[0]
}

// pair finds the fork of each join: the one with the same ids, or failing that the same first id,
// or failing that any of its ids, so that a typo in one list is reported as such. It then fills in
// the definition.
func (d *draft) pair() {
	for _, j := range d.joins {
		d.convertJoin(j)
	}
	owners := map[string][]*forkSite{}
	for _, f := range d.forks {
		for i, p := range f.Paths {
			if p.ID != "" && !slices.Contains(owners[p.ID], f) && (i == 0 || len(owners[p.ID]) < 8) {
				owners[p.ID] = append(owners[p.ID], f)
			}
		}
	}
	same := func(f *forkSite, j *joinSite) bool { return slices.Equal(f.pathIDs(), j.PathIDs) }
	first := func(f *forkSite, j *joinSite) bool { return f.pathIDs()[0] == j.PathIDs[0] }
	shared := func(*forkSite, *joinSite) bool { return true }
	for _, fits := range []func(*forkSite, *joinSite) bool{same, first, shared} {
		for _, j := range d.joins {
			for _, id := range j.PathIDs {
				for _, f := range owners[id] {
					if j.fork == nil && f.join == nil && fits(f, j) {
						j.fork, f.join = f, j
					}
				}
			}
		}
	}
	for _, j := range d.joins {
		for _, id := range j.PathIDs {
			if j.fork == nil && len(owners[id]) > 0 {
				j.fork, j.extra = owners[id][0], true
				j.fork.twice = true
			}
		}
		set(&d.def.Joins, j.name, j.JoinSpec)
	}
	for _, f := range d.forks {
		if f.join != nil {
			f.Join = f.join.name
		}
		set(&d.def.Forks, f.name, f.ForkSpec)
	}
}

// convertJoin fills in the path ids of a join in the older format, which names its fork by a
// forkId, or by that as its only path id.
func (d *draft) convertJoin(j *joinSite) {
	if len(j.PathIDs) != 1 {
		return
	}
	id := j.PathIDs[0]
	i := slices.IndexFunc(d.forks, func(f *forkSite) bool {
		return id != "" && len(f.Paths) > 0 && (f.older == id || j.byFork && (f.name == id || f.Paths[0].ID == id))
	})
	if i < 0 || !j.byFork && len(d.forks[i].Paths) == 1 {
		return
	}
	if j.PathIDs = d.forks[i].pathIDs(); j.Main == id {
		j.Main = j.PathIDs[0]
	}
	d.warn(j.ids[0], codeOldFormat, "join %s names its fork as an older format did; its forkPathIds are %s", j.name,
		strings.Join(j.PathIDs, ", "))
}

func (f *forkSite) pathIDs() []string {
	ids := make([]string, len(f.Paths))
	for i, p := range f.Paths {
		ids[i] = p.ID
	}
	return ids
}

// set leaves a map nil until it has an entry, as in a definition read from JSON.
func set[V any](m *map[string]V, name string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[name] = v
}
