package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A stream reads one output of the child to its end: bytes to the writer first,
// then, for stdout, to the line callback.
type stream struct {
	r    *running
	name string
	pipe *os.File
	to   io.Writer
	line func([]byte, bool) error

	kept int64  // bytes passed on; read by others only after done
	part []byte // the line so far
	skip bool   // the rest of a cut line is being skipped
	over bool   // the cap was reached, or writing failed: only drain
	mute bool   // line is not called again

	ending atomic.Bool   // the run's processes are gone: a silent pipe counts as finished
	late   atomic.Bool   // nothing is waited for any more: only what is in the pipe is read
	done   chan struct{} // closed at the end
}

// read reads until every writer has closed the pipe, or, once the run's
// processes are gone, until the pipe is empty and quiet.
func (s *stream) read() {
	defer close(s.done)
	defer s.pipe.Close()
	buf := make([]byte, 64<<10)
	for {
		switch {
		case s.late.Load():
			s.drain(buf)
			s.flush()
			return
		case s.ending.Load():
			s.pipe.SetReadDeadline(time.Now().Add(quietTime))
		}
		n, err := s.pipe.Read(buf)
		if n > 0 {
			s.handle(buf[:n])
		}
		switch {
		case err == nil && s.over && s.ending.Load():
			return
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) && !s.ending.Load():
		case errors.Is(err, os.ErrDeadlineExceeded):
			// The deadline may have passed while this goroutine was not scheduled.
			s.drain(buf)
			s.flush()
			return
		default:
			s.flush()
			return
		}
	}
}

// finish ends reading when the run's processes are gone. It returns immediately if the
// pipe has ended, as it has unless an unknown process holds it open.
func (s *stream) finish() {
	t := time.NewTimer(quietTime)
	defer t.Stop()
	select {
	case <-s.done:
		return
	case <-t.C:
	}
	s.ending.Store(true)
	s.pipe.SetReadDeadline(time.Now().Add(quietTime))
	t.Reset(killWait)
	select {
	case <-s.done:
	case <-t.C:
		// A process outside the run is still writing, or what was read takes long to handle: what is in the pipe is kept.
		s.late.Store(true)
		s.pipe.SetReadDeadline(time.Now())
		<-s.done
	}
}

// drain reads what is in the pipe without waiting for more. It stops at the cap, and after as much as a pipe holds,
// so that a writer that cannot be killed does not keep it busy forever.
func (s *stream) drain(buf []byte) {
	s.pipe.SetReadDeadline(time.Time{})
	raw, err := s.pipe.SyscallConn()
	if err != nil {
		return
	}
	for n, room := 1, maxPipe; n > 0 && room > 0 && !s.over; room -= n {
		err := raw.Read(func(fd uintptr) bool {
			n, _ = unix.Read(int(fd), buf)
			return true
		})
		if err != nil {
			return
		}
		if n > 0 {
			s.handle(buf[:n])
		}
	}
}

// handle passes on bytes that were read.
func (s *stream) handle(b []byte) {
	s.r.touch()
	if s.over {
		return
	}
	s.r.busy.Add(1)
	defer func() {
		s.r.touch()
		s.r.busy.Add(-1)
	}()
	capped := false
	if room := s.r.cfg.MaxBytes - s.kept; int64(len(b)) > room {
		b, capped = b[:room], true
	}
	if s.to != nil && len(b) > 0 {
		if _, err := s.to.Write(b); err != nil {
			s.over, s.mute = true, true
			s.r.fail(IOError, fmt.Errorf("write %s of %s: %w", s.name, s.r.cfg.Path, err))
			return
		}
	}
	s.kept += int64(len(b))
	s.lines(b)
	if capped {
		s.over = true
		if len(s.part) > 0 {
			s.deliver(s.part, true)
		}
		s.mute = true
		s.r.fail(Capped, nil)
	}
}

// lines splits b into lines and keeps an unfinished last one.
func (s *stream) lines(b []byte) {
	if s.line == nil {
		return
	}
	for len(b) > 0 && !s.mute {
		i := bytes.IndexByte(b, '\n')
		piece := b
		if i >= 0 {
			piece, b = b[:i], b[i+1:]
		} else {
			b = nil
		}
		if !s.skip {
			room := s.r.cfg.MaxLine - len(s.part)
			long := len(piece) > room
			if long {
				piece = piece[:room]
			}
			switch {
			case long:
				s.part = append(s.part, piece...)
				s.deliver(s.part, true)
				s.part, s.skip = s.part[:0], true
			case i >= 0 && len(s.part) == 0:
				s.deliver(piece, false)
			case i >= 0:
				s.part = append(s.part, piece...)
				s.deliver(s.part, false)
				s.part = s.part[:0]
			default:
				s.part = append(s.part, piece...)
			}
		}
		if i >= 0 {
			s.skip = false
			if cap(s.part) > 1<<20 {
				s.part = nil // one huge line must not keep its memory
			}
		}
	}
}

// flush delivers a last line that has no newline.
func (s *stream) flush() {
	if len(s.part) > 0 && !s.skip {
		s.deliver(s.part, false)
	}
	s.part = nil
}

func (s *stream) deliver(line []byte, cut bool) {
	if s.mute || s.line == nil {
		return
	}
	if err := s.line(line, cut); err != nil {
		s.mute = true
		s.r.fail(LineError, err)
	}
}
