package taskdir

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/plait-run/plait/internal/record/store"
)

// An EventsPage is a part of events.jsonl.
type EventsPage struct {
	Events  []store.Event // Pos is the offset of the line in the file
	Next    int64         // offset of the rest
	More    bool          // there is more after it
	Size    int64         // of the file
	Unclear int           // lines that are not events
}

// Limits on one read of events.jsonl, in bytes: of a line, of what is scanned, and of what is
// returned.
const (
	maxEventLine = 1 << 20
	maxScan      = 32 << 20
	maxKept      = 2 << 20
)

// Events reads at most most events from offset from in events.jsonl: those that want accepts, or
// all if want is nil. A negative offset counts from the end, and is moved to the beginning of a
// line. Lines that are not events, and those of more than 1 MiB, are counted and skipped.
func (c *DirReader) Events(from int64, most int, want func(store.Event) bool) (s EventsPage, err error) {
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

// boundedLine reads a line and returns its length in the file. data is nil if it is longer than
// most.
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

// readLine decodes a line that appendLine wrote.
func readLine(data []byte) (store.Event, bool) {
	var l line
	err := json.Unmarshal(data, &l)
	return l.Event, err == nil && l.Type != ""
}
