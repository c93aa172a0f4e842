package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// dayFlow asks a question, changes a file, and asks for an approval.
const dayFlow = `version: 1
name: day
roles:
  look: {description: looks, agent: {kind: command, command: [fake, 'say=I looked\e]0;title\a around\n']}}
  work: {description: works, access: write, agent: {kind: command, command: [sh, -c, 'echo blue > colour.txt; echo painted it']}}
gates:
  colour: {kind: input, question: "Which colour shall the door have?", options: [red, blue]}
  sure: {kind: approval, question: "Ship the door?"}
graph:
  $START: {new: {role: look, prompt: "{{ prompt }}"}}
  look: {done: {role: colour}}
  colour: {answered: {role: work, prompt: "paint it {{ answer }}"}}
  work: {done: {role: sure}}
  sure: {approved: {role: $END, prompt: "The door is shipped."}, rejected: {role: $END, prompt: "The door stays."}}
`

// repository makes the workspace a git repository with the flow of TestDay.
func (p *place) repository() {
	p.t.Helper()
	p.write("day.yaml", dayFlow)
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "."},
		{"-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "-m", "first"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = filepath.Join(p.work, "ws"), p.env
		if out, err := cmd.CombinedOutput(); err != nil {
			p.t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	if out, code := p.run("flow", "add", "day.yaml"); code != 0 {
		p.t.Fatalf("flow add: %d: %s", code, out)
	}
}

// TestDay works through a whole day on one screen without typing an id: it begins a task, answers its
// question, gives its approval, looks at its changes, forks a step of it, cancels the fork and tries it
// again.
func TestDay(t *testing.T) {
	for _, size := range []struct{ cols, rows int }{{80, 24}, {160, 50}} {
		t.Run("", func(t *testing.T) {
			p := newPlace(t)
			p.repository()
			s := p.session(size.cols, size.rows)
			s.see("none yet: n starts one")
			s.press("n")
			s.see("NEW TASK")
			for !strings.Contains(s.see(`▸ \w`), "▸ day") {
				was := s.screen()
				s.press("up")
				s.changes(was)
			}
			s.see(`▸ day .*registry`)
			s.press("Paint the door", "tab")
			s.see(`offline  scripted model, no account: auto`)
			s.press("enter")
			s.up(`\? Which colour shall the door have\?`)
			s.press("enter")
			s.see(`1 +red`)
			s.press("2", "enter")
			s.up(`! Ship the door\?`)
			s.press("enter")
			s.see(`a approve · d deny`)
			s.press("a")
			s.see(`RESULT`)
			s.see(`The door is shipped`)
			s.press("down", "d")
			s.see(`\+blue`)
			s.press("o")
			s.see(`painted it`)
			s.press("F")
			s.see(`Fork after step \d \(work\):`)
			s.press("and polish it", "enter")
			s.see(`forked as \w+; the original is unchanged`)
			s.see(`! Ship the door\?`)
			s.press("c")
			s.see(`Cancel \w+\? Its agents are stopped. y cancels it`)
			s.press("n")
			s.see(`c cancel`)
			s.press("c", "y")
			s.see(`cancelled · \d`)
			s.press("r")
			s.see(`is a fork of \w+: continues where it was cancelled`)
			s.up(`! Ship the door\?`)
			s.press("enter")
			s.see(`a approve · d deny`)
			s.press("a")
			s.see(`The door is shipped`)
			s.press("esc")
			if rows := s.see(`TASKS`); strings.Count(rows, "✓ done") != 2 || strings.Count(rows, "– cancelled") != 1 {
				t.Errorf("the tasks are others:\n%s", rows)
			}
			s.resize(60, 20)
			s.see(`(?m)^▸ \w+ +✓ done +Paint the door.*now$`)
			s.press("q")
			if code := s.end(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// TestRunAnswersInline answers what a run asks where it is shown: questions open by themselves, an
// approval waits to be opened, and a key that was typed ahead has no effect.
func TestRunAnswersInline(t *testing.T) {
	p := newPlace(t)
	p.repository()
	s := p.session(80, 24, "run", "day", "-p", "Paint the door")
	s.see(`Which colour shall the door have\?`)
	s.press("b", "l", "u", "e", "enter")
	s.see(`! Ship the door\?`)
	s.press("a", "enter")
	s.press("a") // it has only just appeared
	s.see(`a approve · d deny`)
	s.press("a")
	if code := s.end(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, s.screen())
	}
	if now := s.see("The door is shipped"); strings.Count(now, "The door is shipped") != 1 {
		t.Errorf("the end was not told once:\n%s", now)
	}
}

// TestGateWatchResumes answers elsewhere what a terminal with gate watch --resume shows: the task continues there.
func TestGateWatchResumes(t *testing.T) {
	for _, flags := range [][]string{nil, {"--plain"}} {
		p := newPlace(t)
		p.repository()
		if out, code := p.run("run", "day", "-p", "Paint the door", "-q"); code != exitPerson {
			t.Fatalf("exit code %d: %s", code, out)
		}
		s := p.session(100, 30, append(flags, "gate", "watch", "--resume")...)
		s.see("Which colour shall the door have")
		if out, code := p.run("answer", p.openGates()[0].ID, "-m", "blue"); code != 0 {
			t.Fatalf("exit code %d: %s", code, out)
		}
		s.see("Ship the door")
		s.press("ctrl+c")
		s.end()
	}
}

// TestLeaving checks that plait asks before it stops what it drives on the terminal, and leaves the terminal as it was.
func TestLeaving(t *testing.T) {
	p := newPlace(t)
	p.write("slow.yaml", `version: 1
name: slow
roles:
  one: {description: is slow, agent: {kind: command, command: [fake, sleep=1h]}}
graph:
  $START: {new: {role: one, prompt: "{{ prompt }}"}}
  one: {done: {role: $END, prompt: done}}
`)
	s := p.session(80, 24, "run", "slow.yaml", "-p", "go", "--id", killID)
	s.see(`● one`)
	s.press("ctrl+c")
	s.see(`1 task runs here. s stop \(resume later\)`)
	s.press("k")
	s.see(`● one`)
	s.press("ctrl+c")
	s.see(`s stop`)
	s.press("s")
	if code := s.end(); code != exitInterrupted {
		t.Errorf("exit code %d:\n%s", code, s.screen())
	}
	s.see("interrupted")

	s = p.session(80, 24, "resume", killID)
	s.see(`● one`)
	s.cmd.Process.Signal(syscall.SIGTERM)
	if code := s.end(); code != exitInterrupted {
		t.Errorf("exit code %d after SIGTERM:\n%s", code, s.screen())
	}
	for on, off := range map[string]string{"\x1b[?25l": "\x1b[?25h", "\x1b[?2004h": "\x1b[?2004l",
		"\x1b[>1u": "\x1b[<1u"} {
		if all := s.all(); strings.LastIndex(all, on) > strings.LastIndex(all, off) {
			t.Errorf("%q was left on", on)
		}
	}
}

// TestTalks holds a conversation: a line, its answer, the next line, until Ctrl-D.
func TestTalks(t *testing.T) {
	p := newPlace(t)
	if err := os.MkdirAll(filepath.Join(p.work, "ws", ".plait", "flows"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write(".plait/flows/chat.yaml", `version: 1
name: chat
roles:
  assistant: {description: talks, chat: true, agent: {kind: command, command: [fake, 'say=I heard you\n']}}
graph:
  $START: {new: {role: assistant, prompt: "{{ prompt }}"}}
`)
	s := p.session(80, 24, "run", "chat")
	s.see("say something")
	s.press("hello", "enter")
	s.see(`(?s)› hello\n.*I heard you`)
	s.press("once more", "enter")
	again := regexp.MustCompile(`(?s)› once more\n.*I heard you`)
	s.await("it is not answered again", func(now string) bool {
		if strings.Contains(now, "Wait for the answer first") { // the last text arrives before the turn ends
			s.press("enter")
		}
		return again.MatchString(now)
	})
	s.press("ctrl+d")
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.see(`continue this conversation with: plait resume`)
}
