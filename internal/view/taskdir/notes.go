package taskdir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
)

// Limits on a person's notes, in bytes: of the file, and of what is read at once.
const (
	maxNotesFile = 4 << 20
	maxNews      = 64 << 10
)

// A Stamp identifies the state of a file. The zero Stamp means that there is no file.
type Stamp struct{ at stamp }

// Age returns how long ago the file was last changed, by the system's clock.
func (s Stamp) Age(now time.Time) time.Duration { return now.Sub(time.Unix(s.at.ctime.Unix())) }

// Notes reads human-notes.md, empty if it is missing. It is an error if it is too large or not a
// regular file.
func (d Dir) Notes() ([]byte, error) {
	root, err := d.openExisting()
	if err == nil {
		defer root.Close()
		var data []byte
		if data, _, err = readPlain(root, notesFile, maxNotesFile); err == nil {
			return data, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return nil, fmt.Errorf("read %s: %w", notesFile, err)
}

// NotesStamp returns the stamp of human-notes.md, zero if the file cannot be read.
func (d Dir) NotesStamp() Stamp {
	root, err := d.openExisting()
	if err != nil {
		return Stamp{}
	}
	defer root.Close()
	info, err := root.Lstat(notesFile)
	if err != nil {
		return Stamp{}
	}
	return Stamp{stampOf(info)}
}

// A NotesState records how much of human-notes.md has been read. It depends only on NotesRead events.
type NotesState struct {
	to   int64
	hash dag.Hash
	cut  bool
	text string // the text read so far, if the events still have it
}

// NewNotesState returns the state before anything was read: the file as Plait wrote it.
func NewNotesState() NotesState {
	return NotesState{to: int64(len(notes)), hash: dag.Sum([]byte(notes)), text: notes + earlierNotes}
}

// With returns the state that follows k after a reading.
func (k NotesState) With(r event.NotesRead) NotesState {
	if r.Edited && !strings.HasSuffix(k.text, "\n") {
		k.text += "\n"
	}
	return NotesState{to: r.To, hash: r.Hash, cut: r.Cut, text: k.text + r.Text}
}

// holds reports whether data begins with the text that was read.
func (k NotesState) holds(data []byte) bool {
	return int64(len(data)) >= k.to && dag.Sum(data[:k.to]) == k.hash
}

// A noteLine is one line of the file, with its line feed.
type noteLine struct {
	text string
	end  int64 // offset of its end in the file
	news bool
}

// News is the part of human-notes.md that has not been read yet.
type News struct {
	known  NotesState
	data   []byte
	lines  []noteLine
	edited bool
	cut    bool
}

// Added compares the file with what was read. Text after the known beginning is new. If the
// beginning was changed, each line that was not there before is new; deleted lines are ignored.
// At most 64 KiB are returned, the rest next time.
func (k NotesState) Added(data []byte) News {
	n := News{known: k, data: data, edited: !k.holds(data)}
	if !n.edited {
		n.known.text = string(data[:k.to])
		n.append()
	} else {
		n.compare()
	}
	return n
}

func (n *News) append() {
	old, fresh := n.data[:n.known.to], n.data[n.known.to:]
	if len(fresh) > maxNews {
		fresh, n.cut = fresh[:cutAt(fresh, maxNews)], true
	}
	var end int64
	for _, part := range [][]byte{old, fresh} {
		for line := range bytes.Lines(part) {
			end += int64(len(line))
			n.lines = append(n.lines, noteLine{string(line), end, end > n.known.to})
		}
	}
}

// compare finds the lines that occur more often than before.
func (n *News) compare() {
	stood := map[string]int{}
	for line := range strings.Lines(n.known.text) {
		stood[bare(line)]++
	}
	var end int64
	taken, last := 0, false
	for line := range bytes.Lines(n.data) {
		end += int64(len(line))
		l := noteLine{text: string(line), end: end}
		name := bare(l.text)
		switch {
		case name == "":
			l.news = last && !n.cut // keeps new paragraphs apart
		case stood[name] > 0:
			stood[name]--
		case taken+len(line) > maxNews && taken > 0:
			n.cut = true
		default:
			if len(line) > maxNews {
				l.text = string(line[:cutAt(line, maxNews)]) + "\n" // a line too long for a person to have written
			}
			l.news, taken = true, taken+len(l.text)
		}
		last = l.news
		n.lines = append(n.lines, l)
	}
}

// bare returns a line as it is compared.
func bare(line string) string {
	return strings.TrimRightFunc(strings.ToValidUTF8(line, "\ufffd"), unicode.IsSpace)
}

// cutAt returns where to cut data to at most most bytes: after a line, or after a character if
// the line is very long.
func cutAt(data []byte, most int) int {
	if i := bytes.LastIndexByte(data[:most], '\n'); i >= most/2 {
		return i + 1
	}
	return len(text.Head(data, most))
}

// Blank reports whether there is nothing but white space.
func (n News) Blank() bool {
	for _, l := range n.lines {
		if l.news && bare(l.text) != "" {
			return false
		}
	}
	return true
}

// More reports whether the file has more than is read at once.
func (n News) More() bool { return n.cut }

// Read returns the state once all parts have been read.
func (n News) Read() NotesState {
	switch {
	case n.cut && n.edited:
		k := n.known
		for _, l := range n.lines {
			if l.news {
				k.text += "\n" + l.text
			}
		}
		return k
	case n.cut:
		end := n.lines[len(n.lines)-1].end
		return NotesState{to: end, hash: dag.Sum(n.data[:end]), cut: true, text: string(n.data[:end])}
	case n.Blank() && !n.edited:
		return n.known // more text may follow the white space
	}
	return NotesState{to: int64(len(n.data)), hash: dag.Sum(n.data), text: string(n.data)}
}

// A Part of the news belongs to one gate, or is a note.
type Part struct {
	Gate     string // that it answers, or "": a note
	Text     string // answer or note
	Readings []event.NotesRead
}

// Sort assigns the news to gates. Notes may answer the gates in open; closed are all other gates
// of the task. A marker is a line "gate ID", or a heading that contains that or is just the id;
// the first six characters of the id are enough if no other gate begins with them. Text below the
// marker of an open gate answers it, up to the next marker; without a marker, text answers the
// only open gate. Everything else is a note, as is text below the marker of a closed gate.
func (n News) Sort(open, closed []string) []Part {
	all := append(append([]string{}, open...), closed...)
	isOpen := func(id string) bool {
		for _, o := range open {
			if o == id {
				return true
			}
		}
		return false
	}
	const note = "note"
	type run struct {
		under string // a gate, note, or "" before any marker
		raw   string // with its marker
		body  string
		end   int64
	}
	var runs []run
	under, begin := "", true
	if n.known.cut && !n.edited {
		under = note // it continues what was cut
	}
	marked := map[string]bool{}
	for _, l := range n.lines {
		id := marker(l.text, all)
		switch {
		case id != "" && !l.news:
			under, begin = "", true
			if isOpen(id) {
				under = id
			}
			continue
		case id != "":
			under, begin = id, true
		case !l.news:
			continue
		}
		if begin || len(runs) == 0 {
			runs, begin = append(runs, run{under: under}), false
		}
		r := &runs[len(runs)-1]
		r.raw, r.end = r.raw+l.text, l.end
		if id == "" {
			r.body += l.text
			marked[under] = marked[under] || strings.TrimSpace(l.text) != ""
		}
	}
	var parts []Part
	taken := map[string]bool{}
	k := n.known
	for _, r := range runs {
		if strings.TrimSpace(r.body) == "" {
			continue // the text for the marker may still be written
		}
		if r.under == "" && len(open) == 1 && !marked[open[0]] {
			r.under = open[0]
		}
		p := Part{Text: strings.TrimSpace(strings.ToValidUTF8(r.raw, "\ufffd"))}
		if isOpen(r.under) && !taken[r.under] {
			taken[r.under] = true
			p.Gate, p.Text = r.under, strings.TrimSpace(strings.ToValidUTF8(r.body, "\ufffd"))
		}
		p.Readings = n.readings(k, p.Gate, r.raw, r.end)
		k = k.With(p.Readings[len(p.Readings)-1])
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return nil
	}
	last := &parts[len(parts)-1]
	for i := range last.Readings {
		r := &last.Readings[i]
		r.Cut = n.cut
		if n.edited && !n.cut {
			r.To, r.Hash = int64(len(n.data)), dag.Sum(n.data)
		}
	}
	return parts
}

// readings returns the events for raw, which ends at end, each small enough. In an edited file only
// the very last event advances the position; otherwise a crash could lose the events after it.
func (n News) readings(k NotesState, gate, raw string, end int64) []event.NotesRead {
	to, hash := end, k.hash
	if n.edited {
		to = k.to
	} else {
		hash = dag.Sum(n.data[:end])
	}
	var out []event.NotesRead
	for _, text := range pieces(strings.ToValidUTF8(raw, "\ufffd"), maxReading) {
		out = append(out, event.NotesRead{From: k.to, To: to, Hash: hash, Text: text, Gate: gate, Edited: n.edited,
			More: true})
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

// marker returns the gate that a line marks, or "".
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
