package claude

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/plait-run/plait/internal/agent"
)

// Continues reports whether the session is in the task's home.
func (a *Agent) Continues(req agent.Request) bool {
	return findSession(a.SessionHome(req.Home), req.Session) != ""
}

// Forks reports whether the other session exists and can be copied.
func (a *Agent) Forks(req agent.Request) bool {
	return req.From != nil && findSession(a.SessionHome(req.From.Home), req.From.Session) != ""
}

// SessionFiles returns the file of a session, and its home.
func (a *Agent) SessionFiles(home, session string) (dir string, files []string) {
	dir = a.SessionHome(home)
	file := findSession(dir, session)
	rel, err := filepath.Rel(dir, file)
	if file == "" || err != nil {
		return dir, nil
	}
	return dir, []string{rel}
}

// findSession returns the file of a session below a home, "" if there is none.
func findSession(home, session string) string {
	if session == "" || strings.ContainsAny(session, `*?[\/`) {
		return ""
	}
	found, _ := filepath.Glob(filepath.Join(home, "projects", "*", session+".jsonl")) // the pattern is valid
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

// forget removes the session of the attempt. If that fails it is refused once more.
func (s *setup) forget() {
	file, err := filepath.Rel(s.home, findSession(s.home, s.session))
	if err != nil {
		return
	}
	if root, err := os.OpenRoot(s.home); err == nil {
		root.Remove(file)
		root.Close()
	}
}

// sessionArgs returns the arguments for the session of the attempt.
func (s *setup) sessionArgs(req agent.Request) []string {
	if s.session = req.Session; s.session != "" {
		return []string{"--resume", s.session}
	}
	s.session = uuid.NewString()
	args := []string{"--session-id", s.session}
	if b := req.From; b != nil {
		args = append(args, "--resume", b.Session, "--fork-session")
		if b.Turn != "" {
			args = append(args, "--resume-session-at", b.Turn)
		}
	}
	return args
}

// copySession copies a session of another home into this one, to fork it.
func (a *Agent) copySession(home string, b agent.Branch) error {
	other := a.SessionHome(b.Home)
	if other == home {
		return nil
	}
	file := findSession(other, b.Session)
	if file == "" {
		return &agent.Failure{Kind: agent.Infra, Message: "Claude Code could not branch off: session " + b.Session +
			" is not there any more"}
	}
	name, err := filepath.Rel(other, file)
	if err != nil {
		return fmt.Errorf("copy session %s: %w", b.Session, err)
	}
	if err := copyFile(home, other, name); err != nil {
		return fmt.Errorf("copy session %s: %w", b.Session, err)
	}
	return nil
}

// copyFile copies a file of one home to another.
func copyFile(to, from, name string) error {
	source, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer target.Close()
	in, err := agent.OpenIn(source, name)
	if err != nil {
		return err
	}
	defer in.Close()
	return agent.ReplaceIn(target, name, in)
}
