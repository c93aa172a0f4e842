package taskdir

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/plait-run/plait/internal/record/store"
)

// eventsFile is the task's journal, one JSON object per line.
const eventsFile = "events.jsonl"

// eventPage is how many events are read from the store at a time.
const eventPage = 1000

// A line is one event in events.jsonl. The position in the whole journal is left out: it means
// nothing without the store.
type line struct {
	store.Event
	Pos int64 `json:"pos,omitempty"` // hides that of the event
}

// appendLine appends an event. A payload that is not JSON is written as a string.
func appendLine(buf *bytes.Buffer, ev store.Event) error {
	switch {
	case len(ev.Payload) == 0:
		ev.Payload = nil
	case !json.Valid(ev.Payload):
		var err error
		if ev.Payload, err = json.Marshal(string(ev.Payload)); err != nil {
			return err
		}
	}
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	return enc.Encode(line{Event: ev})
}

// A journalState is the state of events.jsonl.
type journalState struct {
	pos  int64 // of the last event in it
	left Stamp // of the file after the last write
}

// copyEvents brings events.jsonl up to date, passes each event it reads to see, and returns the
// new state. If the file is unchanged since done, only new events are read; otherwise all of it is
// compared with the journal. A file that is a prefix of the journal, even one that ends within a
// line, is appended to; any other is rewritten.
func copyEvents(ctx context.Context, journal store.Journal, root *os.Root, task string, done journalState,
	see func(store.Event)) (journalState, error) {
	f, info, err := openPlain(root, eventsFile, os.O_RDWR|os.O_CREATE|os.O_APPEND)
	if errors.Is(err, errNotPlain) {
		return rewriteEvents(ctx, journal, root, task, see)
	}
	if err != nil {
		return journalState{}, err
	}
	defer f.Close()
	if done.pos == 0 || stampOf(info) != done.left {
		c := &comparison{r: bufio.NewReaderSize(f, 64<<10), f: f}
		if done.pos, err = eachLine(ctx, journal, task, 0, c.line, see); err != nil {
			return journalState{}, err
		}
		if !c.agrees() {
			return rewriteEvents(ctx, journal, root, task, func(store.Event) {})
		}
	} else if done.pos, err = eachLine(ctx, journal, task, done.pos, writeTo(f), see); err != nil {
		return journalState{}, err
	}
	if info, err = f.Stat(); err != nil {
		return journalState{}, err
	}
	done.left = stampOf(info)
	return done, nil
}

// eachLine encodes the events of a task after pos, a page at a time, and returns the position of
// the last one.
func eachLine(ctx context.Context, journal store.Journal, task string, pos int64, write func([]byte) error,
	see func(store.Event)) (int64, error) {
	var buf bytes.Buffer
	for {
		events, err := journal.Events(ctx, pos, store.EventFilter{Task: task, Limit: eventPage})
		if err != nil {
			return 0, err
		}
		buf.Reset()
		for _, ev := range events {
			if err := appendLine(&buf, ev); err != nil {
				return 0, fmt.Errorf("spell event %d: %w", ev.Pos, err)
			}
			see(ev)
			pos = ev.Pos
		}
		if buf.Len() > 0 {
			if err := write(buf.Bytes()); err != nil {
				return 0, err
			}
		}
		if len(events) < eventPage {
			return pos, nil
		}
	}
}

func writeTo(w io.Writer) func([]byte) error {
	return func(data []byte) error { _, err := w.Write(data); return err }
}

// A comparison checks that a file has the lines of the journal. At the end of the file it starts
// appending.
type comparison struct {
	r       *bufio.Reader
	f       *os.File
	ended   bool
	differs bool
}

// line compares a line, or appends it.
func (c *comparison) line(data []byte) error {
	if c.differs {
		return nil
	}
	if !c.ended {
		have := make([]byte, len(data))
		n, err := io.ReadFull(c.r, have)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		if !bytes.Equal(have[:n], data[:n]) {
			c.differs = true
			return nil
		}
		c.ended, data = err != nil, data[n:]
	}
	_, err := c.f.Write(data)
	return err
}

// agrees reports whether the file has the lines of the journal, and no more.
func (c *comparison) agrees() bool {
	if c.differs || c.ended {
		return !c.differs
	}
	_, err := c.r.ReadByte()
	return err == io.EOF
}

// rewriteEvents writes events.jsonl from the beginning.
func rewriteEvents(ctx context.Context, journal store.Journal, root *os.Root, task string,
	see func(store.Event)) (journalState, error) {
	var done journalState
	err := replaceBy(root, eventsFile, func(f *os.File) (err error) {
		done.pos, err = eachLine(ctx, journal, task, 0, writeTo(f), see)
		return err
	})
	if err != nil {
		return journalState{}, err
	}
	info, err := root.Lstat(eventsFile)
	if err != nil {
		return journalState{}, err
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		done.left = stampOf(info)
	}
	return done, nil
}
