package thread

import (
	"bytes"
	"strconv"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// DecodeState reads the payload of a state. Chains are read state by state, so the usual fields
// are parsed by hand; a payload with an additional field, or with an unusual type, goes through
// decodePayload like all other nodes.
func DecodeState(n dag.Node) (*State, error) {
	s := new(State)
	ok := true
	err := dag.Members(n.Payload, func(key, value []byte) error {
		ok = ok && s.read(key, value)
		return nil
	})
	if err == nil && ok {
		return s, nil
	}
	s = new(State)
	return s, decodePayload(n, s)
}

// read parses one field, and reports whether it recognised the field and its value.
func (s *State) read(key, value []byte) bool {
	switch string(key) {
	case "ancestors":
		return readList(value, &s.Ancestors, func(h *dag.Hash, item []byte) bool { return readHash(item, h) })
	case "childThread":
		return readHash(value, &s.ChildThread)
	case "compact":
		return readHash(value, &s.Compact)
	case "content":
		return readHash(value, &s.Content)
	case "detail":
		return readHash(value, &s.Detail)
	case "fork":
		return readHash(value, &s.Fork)
	case "meta":
		s.Meta = bytes.Clone(value)
		return true
	case "path":
		s.Path.Present = true
		return isNull(value) || readText(value, &s.Path.ID)
	case "paths":
		return isNull(value) || readList(value, &s.Paths, (*PathHead).read)
	case "role":
		return readText(value, &s.Role)
	case "start":
		return readHash(value, &s.Start)
	case "timestamp":
		var err error
		s.Timestamp, err = strconv.ParseInt(string(value), 10, 64)
		return err == nil
	}
	return false
}

func (p *PathHead) read(object []byte) bool {
	ok := true
	err := dag.Members(object, func(key, value []byte) error {
		var status string
		switch string(key) {
		case "head":
			ok = ok && readHash(value, &p.Head)
		case "id":
			ok = ok && readText(value, &p.ID)
		case "status":
			ok = ok && readText(value, &status)
			p.Status = store.Status(status)
		case "thread":
			ok = ok && readText(value, &p.Thread)
		default:
			ok = false
		}
		return nil
	})
	return err == nil && ok
}

func isNull(value []byte) bool { return string(value) == "null" }

func readHash(value []byte, h *dag.Hash) bool { return h.UnmarshalJSON(value) == nil }

func readText(value []byte, text *string) bool {
	var err error
	*text, err = dag.Unquote(value)
	return err == nil
}

// readList parses a list, calling read for each item.
func readList[T any](value []byte, list *[]T, read func(*T, []byte) bool) bool {
	ok := true
	*list = make([]T, 0, Window)
	err := dag.Items(value, func(item []byte) error {
		var v T
		ok = ok && read(&v, item)
		*list = append(*list, v)
		return nil
	})
	return err == nil && ok
}
