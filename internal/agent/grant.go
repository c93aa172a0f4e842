package agent

import (
	"path/filepath"
	"slices"
)

// Granted returns the places that a definition lets an attempt write in addition to the role's access, with links
// followed. A relative place is in the working tree and must stay there, since an agent can put a link in its place.
// hidden are the directories that no agent may see. An error is a final Failure.
func (r Request) Granted(write, hidden []string) (places []string, err error) {
	tree, err := Target(r.Dir)
	if err != nil {
		return nil, Final("sandbox.write: %v", err)
	}
	for _, place := range write {
		path := place
		if !filepath.IsAbs(place) {
			path = filepath.Join(r.Dir, place)
		}
		real, err := Target(path)
		switch {
		case err != nil:
			return nil, Final("sandbox.write: %v", err)
		case !filepath.IsAbs(place) && !Within(tree, real):
			return nil, Final("sandbox.write: %s leads out of the working tree", place)
		case slices.ContainsFunc(hidden, func(dir string) bool { return overlaps(dir, real) }):
			return nil, Final("sandbox.write: %s overlaps PLAIT_HOME, which is kept from agents", place)
		case r.Access != Write && r.Access != Full && Within(tree, real):
			return nil, Final("sandbox.write: %s lies in the working tree, which the role may only read; give the role "+
				"access: write", place)
		}
		places = append(places, real)
	}
	return places, nil
}

// overlaps reports whether one of two directories contains the other; real has no links.
func overlaps(dir, real string) bool {
	at, err := Target(dir)
	return err != nil || Within(at, real) || Within(real, at)
}

// Within reports whether path is dir or lies in it, by their names alone.
func Within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
