package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

// A session is plait on a terminal, with the contents of its screen.
type session struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	term vt10x.Terminal
	over chan struct{} // closed when there is no more output

	mu      sync.Mutex
	written strings.Builder
}

// keyboard matches escapes about keys, which this terminal would misinterpret.
var keyboard = regexp.MustCompile(`\x1b\[[<>?=][\d;]*u`)

// begun matches an incomplete escape.
var begun = regexp.MustCompile(`\x1b(?:\[[<>?=]?[\d;]*\$?)?$`)

// A program asks whether a terminal shows updates atomically, and then marks where they begin and end. This
// terminal does: otherwise a test could read a screen that is partly old.
const (
	asksWhole   = "\x1b[?2026$p"
	answerWhole = "\x1b[?2026;2$y"
	beginWhole  = "\x1b[?2026h"
	endWhole    = "\x1b[?2026l"
)

// whole returns how much of came can be shown: no part of a character, of an escape or of an update.
func whole(came []byte) int {
	n := len(came)
	for i := n - 1; i >= 0 && i >= n-utf8.UTFMax; i-- {
		if utf8.RuneStart(came[i]) {
			if !utf8.FullRune(came[i:]) {
				n = i
			}
			break
		}
	}
	if at := begun.FindIndex(came); at != nil {
		n = at[0]
	}
	if at := bytes.LastIndex(came, []byte(beginWhole)); at >= 0 && !bytes.Contains(came[at:], []byte(endWhole)) {
		n = min(n, at)
	}
	return n
}

// session starts plait on a terminal of the given size.
func (p *place) session(cols, rows int, args ...string) *session {
	p.t.Helper()
	s := &session{t: p.t, cmd: p.command(args...), term: vt10x.New(vt10x.WithSize(cols, rows)), over: make(chan struct{})}
	s.cmd.Env = append(s.cmd.Env, "TERM=xterm-256color")
	tty, err := pty.StartWithSize(s.cmd, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)})
	if err != nil {
		if os.Getenv("CI") == "" && errors.Is(err, os.ErrNotExist) {
			p.t.Skipf("SKIPPED: no pseudo-terminals here: %v", err)
		}
		p.t.Fatal(err)
	}
	s.tty = tty
	p.t.Cleanup(func() {
		s.cmd.Process.Kill()
		tty.Close()
		<-s.over
		s.cmd.Wait()
	})
	go func() {
		defer close(s.over)
		buf := make([]byte, 32<<10)
		var rest []byte // of an incomplete escape
		for {
			n, err := tty.Read(buf) // EIO once the other end is closed
			rest = append(rest, buf[:n]...)
			now := rest
			if err == nil {
				now = rest[:whole(rest)]
			}
			if bytes.Contains(now, []byte(asksWhole)) {
				tty.WriteString(answerWhole)
			}
			s.mu.Lock()
			s.written.Write(buf[:n])
			s.term.Write(keyboard.ReplaceAll(now, nil))
			s.mu.Unlock()
			rest = append([]byte(nil), rest[len(now):]...)
			if err != nil {
				return
			}
		}
	}()
	return s
}

// screen returns what is on the terminal, without blanks at the ends of lines.
func (s *session) screen() string {
	var out []string
	for l := range strings.SplitSeq(s.term.String(), "\n") {
		out = append(out, strings.TrimRight(l, " \x00"))
	}
	return strings.Join(out, "\n")
}

// all returns everything that was written.
func (s *session) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written.String()
}

// see waits until what matches the screen, and returns the screen then.
func (s *session) see(what string) string {
	s.t.Helper()
	return s.await(fmt.Sprintf("%q is not on the screen", what), regexp.MustCompile(what).MatchString)
}

// changes waits until the screen differs from was.
func (s *session) changes(was string) {
	s.t.Helper()
	s.await("the screen does not change", func(now string) bool { return now != was })
}

// await waits until is reports true for the screen, and returns the screen then.
func (s *session) await(not string, is func(screen string) bool) string {
	s.t.Helper()
	give := time.After(2 * time.Minute)
	for {
		if now := s.screen(); is(now) {
			return now
		}
		select {
		case <-give:
			s.t.Fatalf("%s:\n%s", not, s.screen())
		case <-s.over:
			if now := s.screen(); is(now) {
				return now
			}
			s.t.Fatalf("plait has ended, and %s:\n%s", not, s.screen())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// press presses keys, one after the other.
func (s *session) press(keys ...string) {
	s.t.Helper()
	for _, k := range keys {
		if named, ok := map[string]string{"enter": "\r", "esc": "\x1b", "up": "\x1b[A", "down": "\x1b[B", "tab": "\t",
			"right": "\x1b[C", "left": "\x1b[D", "ctrl+c": "\x03", "ctrl+d": "\x04"}[k]; ok {
			k = named
		}
		if _, err := s.tty.WriteString(k); err != nil {
			s.t.Fatal(err)
		}
		if k == "\x1b" {
			time.Sleep(150 * time.Millisecond) // otherwise it is the beginning of another key
		}
	}
}

// up moves the selection up to the given row, once the row is there: other text about it may appear first.
func (s *session) up(row string) {
	s.t.Helper()
	chosen := regexp.MustCompile("▸ *" + row)
	s.await(fmt.Sprintf("%q cannot be selected", row), func(now string) bool {
		if !chosen.MatchString(now) {
			s.press("up")
			return false
		}
		return true
	})
}

// end waits until plait has ended, and returns its exit code.
func (s *session) end() int {
	s.t.Helper()
	select {
	case <-s.over:
	case <-time.After(2 * time.Minute):
		s.t.Fatalf("plait does not end:\n%s", s.screen())
	}
	s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// resize changes the size of the terminal.
func (s *session) resize(cols, rows int) {
	s.t.Helper()
	if err := pty.Setsize(s.tty, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)}); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term.Resize(cols, rows)
}

// What is shown is whole, wherever the output is cut.
func TestSessionIsWhole(t *testing.T) {
	const written = "a\x1b[1mb\x1b[?2026hold ▸\x1b[?2026l\x1b[?2026$pé\x1b[?2026hnew\x1b[?2026l"
	for _, cut := range []string{"\x1b[1", "\x1b", "\x1b[?2026", "\x1b[?2026$", "\x1b[?2026hold", "\x1b[?2026hold ▸",
		"\x1b[?2026hold ▸\x1b[?2026", "▸"[:1], "é"[:1], "\x1b[?2026h▸"[:9]} {
		if n := whole([]byte("x" + cut)); n != 1 {
			t.Errorf("of %q %d bytes are shown", cut, n-1)
		}
	}
	for _, all := range []string{written, "▸", "\x1b[?2026ha\x1b[?2026l", "plain", "\xff", "\x1b[?2026$p"} {
		if n := whole([]byte(all)); n != len(all) {
			t.Errorf("of %q only %d bytes are shown", all, n)
		}
	}
}
