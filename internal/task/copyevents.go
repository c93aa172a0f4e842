package task

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/plait-run/plait/internal/store"
)

// A Stretched is a part of events.jsonl.
type Stretched struct {
	Events  []store.Event // Pos is where the line begins in the file, in bytes
	Next    int64         // where to read on, in bytes
	More    bool          // there is more after it
	Size    int64         // of the file
	Unclear int           // lines that are no events
}

// Bounds of one reading of events.jsonl, in bytes: of a line, of what is looked at,
// and of what is kept.
const (
	maxEventLine = 1 << 20
	maxScan      = 32 << 20
	maxKept      = 2 << 20
)

// Events reads at most most events from a place in events.jsonl: those that want
// takes, all for nil. A place below zero counts from the end, and begins with a line.
// Lines that are no events, and those of more than 1 MiB, are counted and left out.
func (c *DirReader) Events(from int64, most int, want func(store.Event) bool) (s Stretched, err error) {
	f, info, err := c.open(eventsFile)
	if err != nil {
		return s, fmt.Errorf("read %s: %w", eventsFile, err)
	}
	defer f.Close()
	s.Size = info.Size()
	back := from < 0
	if back {
		from = max(0, s.Size+from)
	}
	from = min(from, s.Size)
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return s, fmt.Errorf("read %s: %w", eventsFile, err)
	}
	s.Next = from
	r := bufio.NewReaderSize(io.LimitReader(f, min(maxScan, s.Size-from)), 64<<10)
	for kept := 0; len(s.Events) < most && kept < maxKept; {
		at := s.Next
		data, n, err := boundedLine(r, maxEventLine)
		s.Next += n
		if n > 0 && !(back && at == from && from > 0) {
			ev, ok := readLine(data)
			switch {
			case !ok:
				s.Unclear++
			case want == nil || want(ev):
				ev.Pos = at
				s.Events, kept = append(s.Events, ev), kept+len(data)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return s, fmt.Errorf("read %s: %w", eventsFile, err)
		}
	}
	s.More = s.Next < s.Size
	return s, nil
}

// boundedLine reads a line, and tells how long it is in the file. Of one longer than
// most there is nothing.
func boundedLine(r *bufio.Reader, most int) (data []byte, n int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if n += int64(len(part)); n <= int64(most) {
			data = append(data, part...)
		} else {
			data = nil
		}
		if err != bufio.ErrBufferFull {
			return data, n, err
		}
	}
}

// readLine reads what appendLine spelled.
func readLine(data []byte) (store.Event, bool) {
	var l *line
	if json.Unmarshal(data, &l) != nil || l == nil || l.Type == "" {
		return store.Event{}, false
	}
	return store.Event{Seq: l.Seq, TS: l.TS, Type: l.Type, Task: l.Task, Thread: l.Thread, Instance: l.Instance,
		Attempt: l.Attempt, Payload: l.Payload}, true
}
