package dag

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// refPaths says which payload fields name other objects, in ref order. A path descends through objects; "[]" after a
// name descends into each element of a list; "{a,b}" at the end names several fields. Null and missing fields yield
// no refs. A repeated hash keeps its first place.
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

// A field is one member of a payload.
type field struct{ name, value []byte }

// deriveRefs computes a node's refs from its payload, which is canonical.
func deriveRefs(typ string, payload []byte) ([]Hash, error) {
	paths, ok := refPaths[typ]
	if !ok {
		return nil, fmt.Errorf("unknown node type %q", typ)
	}
	// Collected once, since each path looks up one of them.
	fields := make([]field, 0, 32)
	err := members(payload, func(name, value []byte) error {
		fields = append(fields, field{name, value})
		return nil
	})
	if err != nil {
		return nil, errors.New("payload is not an object")
	}
	var refs []Hash
	for _, p := range paths {
		name, rest, list := splitName(p)
		for _, f := range fields {
			found, err := named(f.name, name)
			if err != nil {
				return nil, fmt.Errorf("payload %w", err)
			}
			if !found {
				continue
			}
			if refs, err = collect(refs, f.value, rest, list); err != nil {
				return nil, fmt.Errorf("payload field %s: %w", p, err)
			}
		}
	}
	return unique(refs), nil
}

// collect appends the hashes found in value at path. If list is set, value is a list, and path
// applies to each of its items.
func collect(refs []Hash, value []byte, path string, list bool) ([]Hash, error) {
	switch {
	case string(value) == "null":
		return refs, nil
	case list:
		err := items(value, func(item []byte) (err error) {
			refs, err = collect(refs, item, path, false)
			return err
		})
		return refs, err
	case path == "":
		var h Hash
		err := h.UnmarshalJSON(value)
		return append(refs, h), err
	}
	names, several := strings.CutPrefix(path, "{")
	if !several {
		name, rest, list := splitName(path)
		err := members(value, func(key, value []byte) error {
			found, err := named(key, name)
			if found {
				refs, err = collect(refs, value, rest, list)
			}
			return err
		})
		return refs, err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(names, "}"), ",") {
		var err error
		if refs, err = collect(refs, value, name, false); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// named reports whether key is name. A key that differs from it only in case is an error: encoding/json would take
// it for name, and its value would be used without being a ref.
func named(key []byte, name string) (bool, error) {
	if string(key) == name {
		return true, nil
	}
	if len(key) >= len(name) && strings.EqualFold(string(key), name) {
		return false, fmt.Errorf("field %q differs from %s only in case", key, name)
	}
	return false, nil
}

// splitName splits the first name off a path and reports whether it names a list.
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

// unique returns hs without zeros and duplicates; the first occurrence wins.
func unique(hs []Hash) []Hash {
	out := make([]Hash, 0, len(hs))
	for _, h := range hs {
		if !h.IsZero() && !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out
}
