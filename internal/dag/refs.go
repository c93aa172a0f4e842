package dag

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// refPaths says which payload fields name other objects, in ref order. A path
// descends through objects; "[]" after a name descends into each element of a
// list; "{a,b}" at the end names several fields. Null and missing fields derive nothing. A hash keeps its first place.
var refPaths = map[string][]string{
	TypeArtifact: {"blob"},
	TypeStart:    {"prompt", "parentState", "hash"},
	TypeState:    {"start", "content", "ancestors[]", "compact", "childThread", "detail", "fork", "paths[].head"},
	TypeFlow:     {},
	TypeDetail: {
		"prompt", "transcript", "attempts[].transcript", "stderr", "evidence[]", "calls", "attempts[].calls", "files",
		"sessionFiles",
	},
	TypeEvidence: {"sources[].{blob,stdoutRef,stderrRef,eventsRef}", "artifactRefs[]"},
	TypePrompt:   {"parts[].content"},
	TypeCalls:    {"calls[].parts[]", "calls[].response", "prev"},
	TypeTree:     {"bundle", "base"},
	TypeSession:  {"prev", "bytes"},
}

// deriveRefs computes a node's refs from its payload.
func deriveRefs(typ string, payload []byte) ([]Hash, error) {
	paths, ok := refPaths[typ]
	if !ok {
		return nil, fmt.Errorf("unknown node type %q", typ)
	}
	var v any
	if err := json.Unmarshal(payload, &v); err != nil {
		return nil, err
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, errors.New("payload is not an object")
	}
	var refs []Hash
	for _, p := range paths {
		var err error
		if refs, err = collect(refs, v, p); err != nil {
			return nil, fmt.Errorf("payload field %s: %w", p, err)
		}
	}
	return unique(refs), nil
}

// collect appends the hashes found in v at path.
func collect(refs []Hash, v any, path string) ([]Hash, error) {
	if v == nil {
		return refs, nil
	}
	if path == "" {
		s, ok := v.(string)
		if !ok {
			return nil, ErrBadHash
		}
		h, err := ParseHash(s)
		return append(refs, h), err
	}
	if names, ok := strings.CutPrefix(path, "{"); ok {
		for name := range strings.SplitSeq(strings.TrimSuffix(names, "}"), ",") {
			var err error
			if refs, err = collect(refs, v, name); err != nil {
				return nil, err
			}
		}
		return refs, nil
	}
	name, rest, list := splitName(path)
	obj, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("want an object")
	}
	if !list {
		return collect(refs, obj[name], rest)
	}
	if obj[name] == nil {
		return refs, nil
	}
	items, ok := obj[name].([]any)
	if !ok {
		return nil, errors.New("want a list")
	}
	for _, item := range items {
		var err error
		if refs, err = collect(refs, item, rest); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// splitName splits the first name off a path and reports whether the name is of a list.
func splitName(path string) (name, rest string, list bool) {
	for i := range len(path) {
		switch path[i] {
		case '.':
			return path[:i], path[i+1:], false
		case '[':
			rest = path[i+2:]
			if rest != "" {
				rest = rest[1:]
			}
			return path[:i], rest, true
		}
	}
	return path, "", false
}

// checkRefs refuses refs that the payload does not derive.
func checkRefs(n Node) error {
	if n.Type == TypeContent {
		if len(n.Payload) == 0 || n.Payload[0] != '"' {
			return errors.New("payload of content is not a string")
		}
		if len(unique(n.Refs)) != len(n.Refs) || slices.Contains(n.Refs, Hash{}) {
			return errors.New("refs of content are not unique")
		}
		return nil
	}
	want, err := deriveRefs(n.Type, n.Payload)
	if err != nil {
		return err
	}
	if !slices.Equal(want, n.Refs) {
		return errors.New("refs are not those that the payload derives")
	}
	return nil
}

// unique returns hs without zeros and doubles; the first place wins.
func unique(hs []Hash) []Hash {
	out := make([]Hash, 0, len(hs))
	for _, h := range hs {
		if !h.IsZero() && !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out
}
