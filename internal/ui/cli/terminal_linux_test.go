package cli

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal of 100 columns.
func terminal(t *testing.T) (ours, theirs *os.File) {
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED: no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { ours.Close() })
	fd := int(ours.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}); err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// onTerminal runs plait on a terminal where input is typed, and returns
// everything that it wrote and its exit code.
func (p *place) onTerminal(input string, args ...string) (string, int) {
	p.t.Helper()
	ours, theirs := terminal(p.t)
	cmd := p.command(args...)
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	theirs.Close()
	if _, err := ours.WriteString(input); err != nil {
		p.t.Fatal(err)
	}
	var out bytes.Buffer
	buf := make([]byte, 4096)
	for {
		n, err := ours.Read(buf) // EIO once the other end is closed
		out.Write(buf[:n])
		if err != nil {
			break
		}
	}
	cmd.Wait()
	return out.String(), cmd.ProcessState.ExitCode()
}

// ownEscapes matches the escapes that plait itself writes, with all those by which its renderer moves what is on a
// screen: which of them it uses depends on which frames it draws.
var ownEscapes = regexp.MustCompile(`\x1b\[(?:(?:(?:0|1|2|7|22|27|31|32|33|36|37|39|38;5;240)(?:;(?:0|1|2|7|22|27|31|32|33|36|37|39|38;5;240))*)?m)|` +
	`\x1b\[(?:\?u|\?5W|\?(?:2026|2027)\$p|\?(?:25|1049|2004|2026|2027)[hl]|>4(?:;2)?m|[<>]1u|[JKH]|1K|\d*[ABCDGHLMPSTXbd@` + "`" + `]|\d+;\d+[Hr])|` +
	`\x1bM|\r`)

// unescaped returns what plait wrote without its own escapes.
func unescaped(out string) string {
	return ownEscapes.ReplaceAllString(out, "")
}

const hostileFlow = `version: 1
name: hostile
roles:
  one:
    description: is hostile
    agent:
      kind: command
      command: [fake, 'say=\e]52;c;aGVsbG8=\e\\ \e[2J \e[35m \e]0;title\n', bytes=wpszMW0g4oCuZXZpbCDigacgByAICg==, 'leave=\e]52;c;eA.txt:text', sleep=50ms, "say=the end\n"]
graph:
  $START: {new: {role: one, prompt: "{{ prompt }}"}}
  one: {done: {role: $END, prompt: "{{ _body }}"}}
`

// TestTerminal checks what a person sees of a run: a live tree, lines that stay, and the end once.
func TestTerminal(t *testing.T) {
	p := newPlace(t)
	s := p.session(80, 24, "run", "six.yaml", "-p", "go", "--id", killID)
	if code := s.end(); code != 0 {
		t.Fatalf("exit code %d: %s", code, s.screen())
	}
	for _, want := range []string{`(?m)^a +→ done`, `(?m)^f +→ done`, "all six"} {
		s.see(want)
	}
	if now := s.screen(); strings.Contains(now, "●") || strings.Count(now, "all six") != 1 {
		t.Errorf("what moves stands there still, or the end was told twice:\n%s", now)
	}
	if all := s.all(); !strings.Contains(all, "\x1b[36;1mrunning") || !strings.Contains(all, "\x1b[32m✓") {
		t.Errorf("no colours: %q", all)
	}
	p.env = append(p.env, "NO_COLOR=1")
	if out, _ := p.onTerminal("", "thread", "show", killID); strings.Contains(out, "\x1b") {
		t.Errorf("colours though NO_COLOR is set: %q", out)
	}
	s = p.session(80, 24, "run", "six.yaml", "-p", "go")
	s.end()
	if colour := regexp.MustCompile(`\x1b\[[\d;]*3\d`).FindString(s.all()); colour != "" {
		t.Errorf("a colour though NO_COLOR is set: %q", colour)
	}
}

func TestTerminalIsSafeFromAgents(t *testing.T) {
	p := newPlace(t)
	p.write("hostile.yaml", hostileFlow)
	for _, args := range [][]string{
		{"run", "hostile.yaml", "-p", "\x1b]52;c;eA==\x07 \u202e", "--id", killID},
		{"run", "hostile.yaml", "-p", "x", "-q"},
		{"thread", "list"},
		{"thread", "show", killID},
		{"thread", "show", killID, "--full"},
		{"thread", "show", killID, "--prompt", "1"},
		{"thread", "log", killID},
		{"flow", "show", "./hostile"},
		{"thread", "show", "\x1b[2J"},
		{"run", "\x9b31m", "-p", "x"},
		{"\x1b[2J"},
		{"thread", "rm", "\x1b[2J\x9b"},
		{"run", "six.yaml", "-p", "x", "--limit", "\x1b[2J=3"},
		{"run", "six.yaml", "-p", "x", "--set", "\x1b[2J.agent=3"},
		{"cas", "get", "\x1b[2J\x1b[2J"},
		{"cas", "put", "\x1b[2J"},
		{"run", "six.yaml", "-p", "@\x1b[2J"},
		{"flow", "rm", "\x1b[2J"},
		{"flow", "rollback", "\x1b[2J"},
		{"flow", "check", "\x1b[2J"},
	} {
		out, code := p.onTerminal("", args...)
		if slices.Contains(args, killID) && code != 0 {
			t.Errorf("%q: exit code %d: %q", args, code, out)
		}
		if text := unescaped(out); !inert(text) {
			t.Errorf("%q wrote %q", args, text)
		}
		if out == "" {
			t.Errorf("%q wrote nothing", args)
		}
	}
}

// TestTerminalAsks answers the questions that are asked only of people.
func TestTerminalAsks(t *testing.T) {
	p := newPlace(t)
	if out, code := p.run("run", "six.yaml", "-p", "go", "-q", "--id", killID); code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	for _, no := range []string{"n\n", "\n", "you must be joking\n", "yes but\n", "y no\n"} {
		out, code := p.onTerminal(no, "thread", "rm", killID)
		if code != exitUsage || !strings.Contains(out, "Remove "+strings.ToLower(killID[len(killID)-4:])) {
			t.Errorf("%q: exit code %d: %q", no, code, out)
		}
	}
	if _, _, found := p.thread(killID); !found {
		t.Error("the thread is gone though the answer was no")
	}
	p.write("six.yaml", killFlow+"# changed\n")
	if out, code := p.onTerminal("n\n", "run", "six.yaml", "-p", "go", "-q"); code != exitUsage ||
		!strings.Contains(out, "+# changed") {
		t.Errorf("exit code %d: %q", code, out)
	}
	if out, code := p.onTerminal("y\n", "run", "six.yaml", "-p", "go", "-q"); code != 0 {
		t.Errorf("exit code %d: %q", code, out)
	}
	if out, code := p.onTerminal(" YES \n", "thread", "rm", killID); code != 0 {
		t.Errorf("exit code %d: %q", code, out)
	}
	if _, _, found := p.thread(killID); found {
		t.Error("the thread is still there though the answer was yes")
	}
}

// TestTaskIsAnswered answers what a task asks without its id: only on a terminal, after a look and a yes.
func TestTaskIsAnswered(t *testing.T) {
	p := newPlace(t)
	p.repository()
	if out, code := p.run("run", "day", "-p", "Paint the door", "-q"); code != exitPerson {
		t.Fatalf("exit code %d: %s", code, out)
	}
	open := func() int {
		out, _ := p.run("gate", "list", "-q")
		return len(strings.Fields(out))
	}
	if out, code := p.onTerminal("y\n", "answer", "last", "-m", "red"); code != 0 ||
		!strings.Contains(out, "Which colour shall the door have?") || open() != 0 {
		t.Fatalf("answer: exit code %d: %q", code, out)
	}
	p.run("resume", "last", "-q")
	for _, verb := range []string{"approve", "deny"} {
		if out, code := p.run(verb, "last"); code != exitUsage || !strings.Contains(out, "name the approval") || open() != 1 {
			t.Errorf("%s without a terminal: exit code %d: %q", verb, code, out)
		}
		for _, no := range []string{"n\n", "\n", "approve\n"} {
			out, code := p.onTerminal(no, verb, "last")
			if code != exitUsage || !strings.Contains(out, "Ship the door?") || !strings.Contains(out, "mean to "+verb) ||
				!strings.Contains(out, "nothing was answered") || open() != 1 {
				t.Errorf("%s, %q: exit code %d: %q", verb, no, code, out)
			}
		}
	}
	if out, code := p.onTerminal("y\n", "deny", "last", "-m", "not yet"); code != 0 || open() != 0 {
		t.Fatalf("deny: exit code %d: %q", code, out)
	}
	if out, _ := p.run("gate", "list", "--state", "rejected"); !strings.Contains(out, "Ship the door?") {
		t.Errorf("it was not denied: %s", out)
	}
	if out, code := p.onTerminal("y\n", "approve", "last"); code != exitNotFound || !strings.Contains(out,
		"no open approval") {
		t.Errorf("nothing is open: exit code %d: %q", code, out)
	}
}
