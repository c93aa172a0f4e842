package blame

import (
	"cmp"
	"maps"
	"slices"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A step is one that has trees.
type step struct {
	hash     dag.Hash
	row      store.Thread // of the first thread that has it
	n        int          // along its conversation
	role     string
	detail   *thread.Detail
	previous *step // in its conversation
	changes  []git.FileChange
	versions map[string]*version // by path
}

// A version is a state of a file that a step left.
type version struct {
	step    *step
	path    string
	blob    string     // "": the step removed the file
	old     string     // the blob before the step, "" for none
	parents []*version // of which it was made
	outside *state     // of which it was made, if that is no version: the file as a person or another program left it
	through []*version // that outside has lines of, nil: not known yet
	order   int        // of its step's end
}

// began returns when a step began with the files that it changed, Unix ms. A join only takes what is there.
func (s *step) began() int64 {
	if s.detail.Merge != nil {
		return s.detail.EndedAt
	}
	return s.detail.StartedAt
}

// sides returns what a join merged.
func (s *step) sides() []thread.MergedSide {
	if s.detail.Merge == nil {
		return nil
	}
	return s.detail.Merge.Sides
}

// versionAt returns the newest version of a file up to a step, nil if there is none.
func (s *step) versionAt(path string) *version {
	for ; s != nil; s = s.previous {
		if v := s.versions[path]; v != nil {
			return v
		}
	}
	return nil
}

// A versions has all versions of files.
type versions struct {
	n      int                   // of them
	byPath map[string][]*version // in the order of the ends of their steps
	byBlob map[string][]*version
}

// link makes the versions that steps left, each linked to those that it was made from.
func link(steps []*step) versions {
	steps = slices.Clone(steps)
	slices.SortStableFunc(steps, func(a, b *step) int {
		return cmp.Or(cmp.Compare(a.detail.EndedAt, b.detail.EndedAt), cmp.Compare(a.began(), b.began()))
	})
	all := versions{byPath: map[string][]*version{}, byBlob: map[string][]*version{}}
	left := map[string][]*step{} // by tree
	for _, s := range steps {
		s.versions = map[string]*version{}
		for _, c := range s.changes {
			v := &version{step: s, path: c.Path, blob: c.New, old: c.Old, order: all.n}
			all.n++
			s.versions[c.Path] = v
			all.byPath[v.path] = append(all.byPath[v.path], v)
			all.byBlob[v.blob] = append(all.byBlob[v.blob], v)
			if c.From != "" {
				s.versions[c.From] = &version{step: s, path: c.From}
			}
		}
		for _, c := range s.changes {
			v, was := s.versions[c.Path], cmp.Or(c.From, c.Path)
			if c.Old != "" {
				all.makeFrom(v, c.Old, was)
			}
			for _, side := range s.sides() {
				if of := sideOf(left[side.Tree], s.row.Task); side.Merged && of != nil {
					v.add(of.versionAt(was))
				}
			}
		}
		left[*s.detail.TreeAfter] = append(left[*s.detail.TreeAfter], s) // of a join, only what was there before is a side
	}
	return all
}

// sideOf returns the newest of a task's steps.
func sideOf(steps []*step, task string) *step {
	for _, s := range slices.Backward(steps) {
		if s.row.Task == task {
			return s
		}
	}
	return nil
}

func (v *version) add(parent *version) {
	if parent != nil && parent.blob != "" && !slices.Contains(v.parents, parent) {
		v.parents = append(v.parents, parent)
	}
}

// makeFrom links a version to the one that its step began with: in its own conversation; else the only one with
// these bytes; else a state that is no version.
func (all versions) makeFrom(v *version, blob, path string) {
	if own := v.step.previous.versionAt(path); own != nil && own.blob == blob {
		v.add(own)
		return
	}
	var same []*version
	for _, o := range all.byBlob[blob] {
		if o.order < v.order && o.step.detail.EndedAt <= v.step.began() {
			same = append(same, o)
		}
	}
	if same = newest(same); len(same) == 1 {
		v.add(same[0])
		return
	}
	v.outside = &state{blob: blob, path: path, until: v.step.began()}
}

// newest returns the versions from which no other of them was made.
func newest(list []*version) []*version {
	older := map[*version]bool{}
	for _, v := range list {
		for _, p := range v.ancestors() {
			older[p] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(list), func(v *version) bool { return older[v] })
}

// ancestors returns the versions that v was made from, directly or not, the newest first.
func (v *version) ancestors() []*version {
	seen := map[*version]bool{}
	var walk func(v *version)
	walk = func(v *version) {
		for _, p := range slices.Concat(v.parents, v.through) {
			if !seen[p] {
				seen[p] = true
				walk(p)
			}
		}
	}
	walk(v)
	return slices.SortedFunc(maps.Keys(seen), func(a, b *version) int { return cmp.Compare(b.order, a.order) })
}
