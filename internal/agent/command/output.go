package command

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/text"
)

const (
	maxText     = 2 << 10                // bytes of a line in an event
	minPause    = 200 * time.Millisecond // between two progress events
	maxProgress = 400                    // bytes of the last stderr line in a message
)

// A head forwards all bytes and keeps the first agent.MaxOutput of them.
type head struct {
	to   io.Writer
	kept []byte
	more bool
}

func (h *head) Write(p []byte) (int, error) {
	if h.to != nil {
		if n, err := h.to.Write(p); err != nil {
			return n, err
		}
	}
	keep := p[:min(len(p), agent.MaxOutput-len(h.kept))]
	h.kept = append(h.kept, keep...)
	h.more = h.more || len(keep) < len(p)
	return len(p), nil
}

// A tail forwards all bytes and keeps the last line that is not blank.
type tail struct {
	to         io.Writer
	line, last []byte // the line being written, truncated; the last complete one that is not blank
}

func (t *tail) Write(p []byte) (int, error) {
	if t.to != nil {
		if n, err := t.to.Write(p); err != nil {
			return n, err
		}
	}
	for rest := p; len(rest) > 0; {
		piece, after, ended := bytes.Cut(rest, []byte("\n"))
		t.line = append(t.line, piece[:min(len(piece), maxProgress+1-len(t.line))]...)
		rest = after
		if ended {
			if len(bytes.TrimSpace(t.line)) > 0 {
				t.last = append(t.last[:0], t.line...)
			}
			t.line = t.line[:0]
		}
	}
	return len(p), nil
}

// suffix returns ": <last line>", or "".
func (t *tail) suffix() string {
	line := t.last
	if len(bytes.TrimSpace(t.line)) > 0 {
		line = t.line
	}
	if len(line) == 0 {
		return ""
	}
	return ": " + text.Clip(string(bytes.TrimSpace(line)), maxProgress)
}

// A progress emits the agent's events. It emits at most one line of output per
// minPause, the latest one, so that a chatty program does not flood the record
// with events.
type progress struct {
	emit func(agent.Event) error
	stop context.CancelCauseFunc

	mu      sync.Mutex // also keeps emit to one goroutine at a time
	text    string
	waiting bool // text is not emitted yet
	sent    time.Time
	timer   *time.Timer // emits text when the pause is over; nil if none is running
	closed  bool
	err     error // the first error of emit; read without mu after flush
}

// event emits e immediately.
func (p *progress) event(e agent.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.send(e)
}

// send emits e. mu is held.
func (p *progress) send(e agent.Event) {
	if p.err != nil {
		return
	}
	if p.err = p.emit(e); p.err != nil {
		p.stop(p.err)
	}
}

// line handles a line of stdout. If a line redraws itself with carriage returns, its
// last state counts; blank lines are ignored.
func (p *progress) line(b []byte, _ bool) error {
	b = bytes.TrimRight(b, "\r \t")
	b = b[bytes.LastIndexByte(b, '\r')+1:]
	if len(b) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.waiting = string(b[:min(len(b), maxText+1)]), true
	switch pause := minPause - time.Since(p.sent); {
	case pause <= 0:
		p.release()
	case p.timer == nil:
		p.timer = time.AfterFunc(pause, p.onTimer)
	}
	return p.err
}

// onTimer emits the waiting line when the pause is over.
func (p *progress) onTimer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = nil
	if !p.closed {
		p.release()
	}
}

// release emits the waiting line. mu is held.
func (p *progress) release() {
	if p.waiting {
		p.send(agent.Event{Kind: agent.EventProgress, Text: text.Clip(p.text, maxText)})
		p.waiting, p.sent = false, time.Now()
	}
}

// flush emits the last line and stops the timer. Later lines are lost.
func (p *progress) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}
