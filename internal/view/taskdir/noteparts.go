package taskdir

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
)

// A Part of an addition answers one gate, or is a note.
type Part struct {
	Gate     string // that it answers, or "": a note
	Text     string // answer or note
	Readings []event.NotesRead
}

// Sort assigns what was added to gates. Notes may answer the gates in open; closed are all other gates of the task.
// Text below the marker of an open gate answers it, up to the next marker; without a marker, text answers the only open
// gate. Everything else is a note, as is text below the marker of a closed gate. See marker.
func (a Addition) Sort(open, closed []string) []Part {
	clean := func(raw []byte) string { return strings.TrimSpace(strings.ToValidUTF8(string(raw), "\ufffd")) }
	sections := slices.DeleteFunc(a.sections(open, closed), func(s section) bool {
		return len(bytes.TrimSpace(s.body)) == 0 // the text for the marker may still be written
	})
	only := "" // the gate that text without a marker answers
	if len(open) == 1 && !slices.ContainsFunc(sections, func(s section) bool { return s.gate == open[0] }) {
		only = open[0]
	}
	var parts []Part
	answered := map[string]bool{}
	k := a.known
	for i, s := range sections {
		p := Part{Text: clean(s.raw)}
		gate := cmp.Or(s.gate, only)
		if slices.Contains(open, gate) && !answered[gate] {
			answered[gate] = true
			p.Gate, p.Text = gate, clean(s.body)
		}
		p.Readings = a.readings(k, p.Gate, s, i == len(sections)-1)
		k = k.With(p.Readings[len(p.Readings)-1])
		parts = append(parts, p)
	}
	return parts
}

// A section is text that was added below a marker, or before the first one.
type section struct {
	gate string // of the marker, noGate, or ""
	raw  []byte // with the marker, if that was added too
	body []byte
	end  int64 // offset of its end in the file
}

// noGate is the gate of text that answers none: it continues what was cut.
const noGate = "none"

// sections splits what was added at the markers.
func (a Addition) sections(open, closed []string) []section {
	gates := slices.Concat(open, closed)
	var all []section
	gate, begin := "", true
	if a.known.cut && !a.edited {
		gate = noGate
	}
	for _, l := range a.lines {
		id := marker(l.text, gates)
		if id != "" {
			gate, begin = id, true
			if !l.added && !slices.Contains(open, id) {
				gate = "" // it was answered since the marker was read
			}
		}
		if !l.added {
			continue
		}
		if begin {
			all, begin = append(all, section{gate: gate}), false
		}
		s := &all[len(all)-1]
		s.raw, s.end = append(s.raw, l.text...), l.end
		if id == "" {
			s.body = append(s.body, l.text...)
		}
	}
	return all
}

// readings returns the events for a section, each small enough. In an edited file only the very last event advances the
// position; otherwise a crash could lose the events after it.
func (a Addition) readings(k NotesState, gate string, s section, last bool) []event.NotesRead {
	r := event.NotesRead{From: k.to, To: s.end, Gate: gate, Edited: a.edited, Cut: last && a.cut, More: true}
	switch {
	case !a.edited:
		r.Hash = dag.Sum(a.data[:s.end])
	case last && !a.cut:
		r.To, r.Hash = int64(len(a.data)), dag.Sum(a.data)
	default:
		r.To, r.Hash = k.to, k.hash
	}
	var out []event.NotesRead
	for _, r.Text = range pieces(strings.ToValidUTF8(string(s.raw), "\ufffd"), maxReading) {
		out = append(out, r)
	}
	out[len(out)-1].More = false
	return out
}

// maxReading limits the text of one event in its JSON form, and leaves room for the rest of the
// payload.
const maxReading = store.MaxEventPayload - 1<<10

// pieces cuts s into pieces whose JSON has at most most bytes. It returns at least one.
func pieces(s string, most int) []string {
	var out []string
	for {
		piece := s
		for {
			data, err := json.Marshal(piece)
			if err != nil || len(data) <= most || len(piece) <= utf8.UTFMax {
				break
			}
			piece = text.Head(piece, min(len(piece)-1, max(len(piece)*most/len(data), utf8.UTFMax)))
		}
		out, s = append(out, piece), s[len(piece):]
		if s == "" {
			return out
		}
	}
}

// minPrefix is how much of a gate's id a marker needs.
const minPrefix = 6

// marker returns the gate that a line marks, or "". A marker is a line "gate ID", or a heading that contains that or is
// just the id; the first six characters of the id are enough if no other gate begins with them.
func marker(line string, ids []string) string {
	line = strings.TrimSpace(line)
	heading := strings.TrimLeft(line, "#")
	level := len(line) - len(heading)
	isHeading := level > 0 && level <= 6 && strings.HasPrefix(heading, " ")
	words := strings.Fields(heading)
	switch {
	case level > 0 && !isHeading, len(words) == 0, len(words) > 64:
		return ""
	case len(words) == 1 && isHeading:
		return gateCalled(words[0], ids)
	case !isHeading && len(words) != 2:
		return ""
	}
	for i, w := range words[:len(words)-1] {
		if strings.EqualFold(strings.Trim(w, "`*_"), "gate") {
			if id := gateCalled(words[i+1], ids); id != "" || !isHeading {
				return id
			}
		}
	}
	return ""
}

// gateCalled returns the only gate whose id is word or begins with it, or "".
func gateCalled(word string, ids []string) string {
	word = strings.ToLower(strings.Trim(word, "`*_:.,;()[]"))
	found := ""
	for _, id := range ids {
		for _, name := range []string{id, strings.TrimPrefix(id, "g-")} {
			switch {
			case word == name:
				return id
			case len(word) >= minPrefix && strings.HasPrefix(name, word):
				if found != "" && found != id {
					return ""
				}
				found = id
			}
		}
	}
	return found
}
