package gateway

import (
	"bytes"
	"encoding/json"
)

// maxData bounds a line of a stream that is read for its usage, in bytes. Lines with usage are short.
const maxData = 1 << 20

// messages counts a response of the Messages API as it passes: a stream of server-sent events, or one object.
// It keeps no more than one line.
type messages struct {
	add  func(Usage)
	line []byte
	skip bool  // the line is too long
	out  int64 // of the response so far: its counts of output are sums
}

func (m *messages) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte{'\n'})
		if m.skip = m.skip || len(m.line)+len(part) > maxData; !m.skip {
			m.line = append(m.line, part...)
		}
		if whole {
			if !m.skip {
				m.read(m.line)
			}
			m.line, m.skip = m.line[:0], false
		}
		rest = after
	}
	if !m.skip && len(m.line) > 0 && m.line[0] == '{' && json.Valid(m.line) { // one object, without an end of line
		m.read(m.line)
		m.line = m.line[:0]
	}
	return len(p), nil
}

type tokens struct {
	Input   int64 `json:"input_tokens"`
	Read    int64 `json:"cache_read_input_tokens"`
	Created int64 `json:"cache_creation_input_tokens"`
	Output  int64 `json:"output_tokens"`
}

// read takes the usage out of one event. Input is told when a response begins, output as a sum while it goes on.
func (m *messages) read(line []byte) {
	data := bytes.TrimPrefix(bytes.TrimSpace(line), []byte("data:"))
	if !bytes.Contains(data, []byte(`"usage"`)) {
		return
	}
	var e struct {
		Type    string
		Usage   tokens
		Message struct{ Usage tokens }
	}
	if json.Unmarshal(data, &e) != nil {
		return
	}
	switch e.Type {
	case "message_start":
		u := e.Message.Usage
		m.out = u.Output
		m.add(Usage{Input: u.Input + u.Read + u.Created, Cached: u.Read, Output: u.Output})
	case "message_delta":
		m.add(Usage{Output: max(0, e.Usage.Output-m.out)})
		m.out = max(m.out, e.Usage.Output)
	case "message": // not a stream
		u := e.Usage
		m.add(Usage{Input: u.Input + u.Read + u.Created, Cached: u.Read, Output: u.Output})
	}
}
