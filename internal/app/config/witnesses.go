package config

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/yamldoc"
)

// A Witness is where checkpoints of the log are shown, besides this machine.
type Witness struct {
	File   string // an absolute path; "": a Git repository, that of the task
	Remote string // the name of a remote of that repository; "": the repository itself
}

// String returns the witness as a configuration has it.
func (w Witness) String() string {
	switch {
	case w.File != "":
		return "file:" + w.File
	case w.Remote != "":
		return "git:" + w.Remote
	}
	return "git"
}

// Noun returns the witness for people.
func (w Witness) Noun() string {
	switch {
	case w.File != "":
		return "the file " + w.File
	case w.Remote != "":
		return "the Git remote " + w.Remote
	}
	return "the Git repository"
}

var remoteName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// parseWitness reads git, git:REMOTE or file:PATH.
func parseWitness(text string) (w Witness, ok bool) {
	kind, at, named := strings.Cut(text, ":")
	switch {
	case text == "git":
		return w, true
	case kind == "git" && remoteName.MatchString(at):
		return Witness{Remote: at}, true
	case kind == "file" && named && filepath.IsAbs(at) && filepath.Clean(at) == at:
		return Witness{File: at}, true
	}
	return w, false
}

// witnesses reads the key witnesses. A project cannot set it: it says where your record is shown.
func (s *Settings) witnesses(file string, key, val *yaml.Node, own bool) []flow.Problem {
	if !own {
		return []flow.Problem{problem(file, "NOT_HERE", yamldoc.Errorf(key,
			"witnesses belongs to your own configuration, not to a project's: it says where your record is shown"))}
	}
	const want = "witnesses must be a list of git, git:REMOTE and file:PATH, with an absolute path"
	if val.Kind != yaml.SequenceNode {
		return wrongType(file, val, want)
	}
	s.Witness = Value[[]Witness]{nil, fmt.Sprintf("%s:%d", file, key.Line)}
	for _, n := range val.Content {
		w, ok := parseWitness(n.Value)
		if !ok {
			return wrongType(file, n, want)
		}
		s.Witness.V = append(s.Witness.V, w)
	}
	return nil
}
