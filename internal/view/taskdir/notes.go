package taskdir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/sys/text"
)

// maxAdded limits how much of a person's notes is read at once, in bytes.
const maxAdded = 64 << 10

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
	return stampOf(info)
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
	text  string
	end   int64 // offset of its end in the file
	added bool
}

// An Addition is the part of human-notes.md that has not been read yet.
type Addition struct {
	known  NotesState
	data   []byte     // all of the file
	lines  []noteLine // of it, up to what is read at once
	edited bool       // the known beginning was changed
	cut    bool       // there is more than is read at once
}

// Added compares the file with what was read. Text after the known beginning is added. If the beginning was changed,
// each line that was not there before is added; deleted lines are ignored. At most 64 KiB are returned, the rest next
// time.
func (k NotesState) Added(data []byte) Addition {
	a := Addition{known: k, data: data, edited: !k.holds(data)}
	if a.edited {
		a.compare()
	} else {
		a.known.text = string(data[:k.to])
		a.follow()
	}
	return a
}

// follow adds what comes after the known beginning.
func (a *Addition) follow() {
	old, fresh := a.data[:a.known.to], a.data[a.known.to:]
	if len(fresh) > maxAdded {
		fresh, a.cut = fresh[:cutAt(fresh, maxAdded)], true
	}
	var end int64
	for _, part := range [][]byte{old, fresh} { // the last known line may have grown
		for line := range bytes.Lines(part) {
			end += int64(len(line))
			a.lines = append(a.lines, noteLine{string(line), end, end > a.known.to})
		}
	}
}

// compare adds the lines that occur more often than before.
func (a *Addition) compare() {
	seen := map[string]int{}
	for line := range strings.Lines(a.known.text) {
		seen[bare(line)]++
	}
	var end int64
	size, last := 0, false // of what is added; whether the line above is
	for line := range bytes.Lines(a.data) {
		end += int64(len(line))
		l := noteLine{text: string(line), end: end}
		name := bare(l.text)
		switch {
		case name == "":
			l.added = last && !a.cut // keeps new paragraphs apart
		case seen[name] > 0:
			seen[name]--
		case size > 0 && size+len(line) > maxAdded:
			a.cut = true
		default:
			if len(line) > maxAdded {
				l.text = string(line[:cutAt(line, maxAdded)]) + "\n" // a line too long for a person to have written
			}
			l.added, size = true, size+len(l.text)
		}
		last = l.added
		a.lines = append(a.lines, l)
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

// Blank reports whether nothing but white space was added.
func (a Addition) Blank() bool {
	return !slices.ContainsFunc(a.lines, func(l noteLine) bool { return l.added && bare(l.text) != "" })
}

// More reports whether the file has more than is read at once.
func (a Addition) More() bool { return a.cut }

// Read returns the state once all parts have been read.
func (a Addition) Read() NotesState {
	end := int64(len(a.data))
	switch {
	case a.edited && a.cut:
		k := a.known
		for _, l := range a.lines {
			if l.added {
				k.text += "\n" + l.text
			}
		}
		return k
	case a.cut:
		end = a.lines[len(a.lines)-1].end
	case a.Blank() && !a.edited:
		return a.known // more text may follow the white space
	}
	return NotesState{to: end, hash: dag.Sum(a.data[:end]), cut: a.cut, text: string(a.data[:end])}
}
