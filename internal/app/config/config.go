// Package config finds and reads settings: the workspace, the two configuration files,
// the environment, and which project files are trusted.
//
//	flag > environment > .plait/config.yaml > $XDG_CONFIG_HOME/plait/config.yaml > default
//
// From directories and the environment it makes one Settings, in which each
// value knows where it came from. Laws: unknown keys are errors, all problems
// of a file are reported together with their positions, and a project file that
// commands were taken from is not used without consent once it has changed. The
// package runs nothing and stores no credentials.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/flow/yamldoc"
)

// Settings is the effective configuration.
type Settings struct {
	Default   Value[string] // agent of roles that name none
	Agents    map[string]Value[flow.Agent]
	Limits    flow.Limits // caps on what flows set; zero: none
	Setup     Value[[]string]
	Discard   Value[[]string]              // see Discards
	Machine   Value[int]                   // maximum of concurrent agents on this machine, in all tasks; zero: no limit
	Prices    map[string]Value[flow.Price] // by model
	Retention Value[int]                   // days to keep ended tasks, 0: for ever; only from the user's own file
	Kept
	Wait     Value[bool]                // tasks wait until usage limits end
	MCP      Value[Answering]           // only from the user's own file
	Notify   Value[Notify]              // only from the user's own file
	Keys     Value[map[string][]string] // commands by variable, only from the user's own file
	Sign     Value[string]              // how answers to approvals are signed; only from the user's own file
	Witness  Value[[]Witness]           // where checkpoints are shown; only from the user's own file
	Forge    Value[Forge]
	Team     Value[Team]
	Project  []byte // the text of the project's file, as it was read
	limitsAt map[string]string
}

// Kept is what tasks keep.
type Kept struct {
	Record   Value[bool] // what agents ask their models
	Files    Value[bool] // what their steps change in files
	Sessions Value[bool] // what vendors store of conversations
	Keep     Value[bool] // both, and what the files were before
}

// A Value knows where it came from.
type Value[T any] struct {
	V    T
	From string // "default", "PLAIT_AGENT", "<file>:<line>"
}

// An Origin is one line of doctor --config.
type Origin struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// Origins returns every value with where it came from, in key order.
func (s *Settings) Origins() []Origin {
	out := []Origin{{"default", s.Default.V, s.Default.From}}
	for name, a := range s.Agents {
		text := a.V.Kind
		if len(a.V.Command) > 0 {
			text += fmt.Sprintf(" %q", a.V.Command)
		}
		out = append(out, Origin{"agents." + name, text, a.From})
	}
	for _, key := range switches {
		if v := s.at(key); v.From != "" {
			out = append(out, Origin{key, fmt.Sprint(v.V), v.From})
		}
	}
	for _, l := range limitValues(s.Limits) {
		if from := s.limitsAt[l.name]; from != "" {
			out = append(out, Origin{"limits." + l.name, l.text, from})
		}
	}
	for model, p := range s.Prices {
		text := fmt.Sprintf("input %g, cached %g, output %g", p.V.Input, p.V.Cached, p.V.Output)
		out = append(out, Origin{"prices." + model, text, p.From})
	}
	if s.Machine.V > 0 {
		out = append(out, Origin{"machine.maxConcurrent", fmt.Sprint(s.Machine.V), s.Machine.From})
	}
	if s.Retention.V > 0 {
		out = append(out, Origin{"retention.days", fmt.Sprint(s.Retention.V), s.Retention.From})
	}
	out = append(out, Origin{"mcp", fmt.Sprintf("questions: %s, approvals: %s", s.MCP.V.Questions, s.MCP.V.Approvals),
		s.MCP.From})
	if s.Sign.From != "" {
		out = append(out, Origin{"approvals", "sign: " + s.Sign.V, s.Sign.From})
	}
	if s.Witness.From != "" {
		out = append(out, Origin{"witnesses", fmt.Sprint(s.Witness.V), s.Witness.From})
	}
	if s.Notify.From != "" {
		out = append(out, Origin{"notify", s.Notify.V.text(), s.Notify.From})
	}
	if s.Forge.From != "" {
		out = append(out, Origin{"forge", s.Forge.V.text(), s.Forge.From})
	}
	if s.Team.From != "" {
		out = append(out, Origin{"team", s.Team.V.text(), s.Team.From})
	}
	out = append(out, s.keyOrigins()...)
	if s.Setup.V != nil {
		out = append(out, Origin{"worktree.setup", fmt.Sprintf("%q", s.Setup.V), s.Setup.From})
	}
	if s.Discard.V != nil {
		out = append(out, Origin{"worktree.discard", fmt.Sprintf("%q", s.Discard.V), s.Discard.From})
	}
	slices.SortFunc(out, func(a, b Origin) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

type limitValue struct {
	name, text string
	set        bool
}

func limitValues(l flow.Limits) []limitValue {
	n := func(name string, v int64) limitValue { return limitValue{name, fmt.Sprint(v), v != 0} }
	return []limitValue{
		n("maxRounds", int64(l.MaxRounds)), n("maxDepth", int64(l.MaxDepth)),
		{"timeout", time.Duration(l.Timeout).String(), l.Timeout != 0},
		n("maxConcurrent", int64(l.MaxConcurrent)), n("maxTokens", l.MaxTokens),
		n("maxCostMicroUSD", l.MaxCostMicroUSD), n("maxActions", int64(l.MaxActions)),
		n("maxTaskActions", int64(l.MaxTaskActions)), n("maxOutput", int64(l.MaxOutput)),
		n("maxAttempts", int64(l.MaxAttempts)),
	}
}

// Load reads the user's and the project's configuration file, either of which
// may be missing, and the environment. A *flow.InvalidError lists all problems.
func Load(userFile, projectFile string, getenv func(string) string) (*Settings, error) {
	s := &Settings{Agents: map[string]Value[flow.Agent]{}, limitsAt: map[string]string{},
		Prices: map[string]Value[flow.Price]{}, Default: Value[string]{"codex", "default"},
		Kept: Kept{Files: Value[bool]{true, "default"}}}
	var problems []flow.Problem
	s.Team.V.Limits = defaultLimits()
	s.Forge.V = Forge{Remote: "origin", Push: PushAsk, Rounds: defaultRounds}
	s.MCP = Value[Answering]{Answering{Questions: ByPerson, Approvals: ByNobody}, "default"}
	for _, file := range []string{userFile, projectFile} {
		data, err := readFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
		if file == projectFile {
			s.Project = data
		}
		problems = append(problems, s.merge(file, data, file == userFile)...)
	}
	if v := getenv("PLAIT_AGENT"); v != "" {
		s.Default = Value[string]{v, "PLAIT_AGENT"}
	}
	if len(problems) > 0 {
		return nil, &flow.InvalidError{Problems: problems}
	}
	return s, nil
}

// maxFile is the most that a configuration file may have, in bytes.
const maxFile = 1 << 20

// readFile reads a configuration file. It refuses what is no regular file: a project could have something there that
// never ends, or that blocks.
func readFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxFile)
	}
	return data, err
}

// merge reads one file; its values replace earlier ones. own is set for the user's own file.
func (s *Settings) merge(file string, data []byte, own bool) []flow.Problem {
	root, err := yamldoc.Parse(data)
	var bad *yamldoc.Error
	switch {
	case errors.As(err, &bad):
		return []flow.Problem{problem(file, "BAD_YAML", bad)}
	case root == nil:
		return nil
	case root.Kind != yaml.MappingNode:
		return wrongType(file, root, "a configuration must be a mapping")
	}
	read := map[string]func(file string, key, val *yaml.Node, own bool) []flow.Problem{
		"mcp": s.answering, "approvals": s.approvals, "notify": s.notify, "forge": s.forge, "team": s.team,
		"witnesses": s.witnesses, "retention": s.retention, "keys": s.keys,
	}
	pairs, problems := pairs(file, root)
	for _, p := range pairs {
		if one := read[p.Key.Value]; one != nil {
			problems = append(problems, one(file, p.Key, p.Value, own)...)
		} else {
			problems = append(problems, s.set(file, p.Key, p.Value)...)
		}
	}
	return problems
}

// set reads one key of a file, with its value.
func (s *Settings) set(file string, key, val *yaml.Node) []flow.Problem {
	from := fmt.Sprintf("%s:%d", file, key.Line)
	switch key.Value {
	case "default":
		if val.Kind != yaml.ScalarNode || val.ShortTag() != "!!str" {
			return wrongType(file, val, "default must be the name of an agent")
		}
		s.Default = Value[string]{val.Value, from}
	case "agents":
		return named(file, val, "agents must be a mapping of names to definitions", s.Agents, parse.DecodeAgent)
	case "limits":
		l, problems := parse.DecodeLimits(val, file)
		s.limit(l, from)
		return problems
	case "prices":
		return named(file, val, "prices must be a mapping of models to {input, cached, output}", s.Prices, parse.DecodePrice)
	case "machine":
		return s.machine(file, val)
	case "record", "files", "sessions", "keepFiles", "waitForReset":
		var on bool
		if val.ShortTag() != "!!bool" || val.Decode(&on) != nil {
			return wrongType(file, val, key.Value+" must be true or false")
		}
		*s.at(key.Value) = Value[bool]{on, from}
		if key.Value == "keepFiles" && !on {
			s.Files = Value[bool]{on, from}
		}
	case "worktree":
		return s.worktree(file, val)
	default:
		return []flow.Problem{problem(file, "UNKNOWN_KEY", yamldoc.Errorf(key,
			"unknown key %q: use default, agents, approvals, files, forge, keepFiles, keys, limits, prices, machine, mcp, "+
				"notify, record, retention, sessions, team, waitForReset, witnesses or worktree", key.Value))}
	}
	return nil
}

// switches are the keys that are true or false.
var switches = []string{"record", "files", "sessions", "keepFiles", "waitForReset"}

// at returns the value of one of the switches.
func (s *Settings) at(key string) *Value[bool] {
	return map[string]*Value[bool]{"record": &s.Record, "files": &s.Files, "sessions": &s.Sessions,
		"keepFiles": &s.Keep, "waitForReset": &s.Wait}[key]
}

func problem(file, code string, e *yamldoc.Error) flow.Problem {
	return flow.Problem{File: file, Line: e.Line, Col: e.Column, Code: code, Message: e.Message}
}

func wrongType(file string, n *yaml.Node, message string) []flow.Problem {
	return []flow.Problem{problem(file, "WRONG_TYPE", yamldoc.Errorf(n, "%s", message))}
}

// pairs returns the keys and values of a mapping, and what is wrong with the rest of its keys.
func pairs(file string, n *yaml.Node) (pairs []yamldoc.Pair, problems []flow.Problem) {
	pairs, bad := yamldoc.Pairs(n)
	for _, e := range bad {
		code := "WRONG_TYPE"
		if e.Duplicate {
			code = "DUPLICATE_KEY"
		}
		problems = append(problems, problem(file, code, e))
	}
	return pairs, problems
}

// limit sets the limits that l has.
func (s *Settings) limit(l flow.Limits, from string) {
	s.Limits = s.Limits.With(l)
	for _, v := range limitValues(l) {
		if v.set {
			s.limitsAt[v.name] = from
		}
	}
}

// named reads a mapping of names to values of one kind into to. wrong is the message for another type.
func named[T any](file string, val *yaml.Node, wrong string, to map[string]Value[T],
	decode func(*yaml.Node, string) (T, []flow.Problem)) []flow.Problem {
	if val.Kind != yaml.MappingNode {
		return wrongType(file, val, wrong)
	}
	entries, problems := pairs(file, val)
	for _, p := range entries {
		v, bad := decode(p.Value, file)
		problems = append(problems, bad...)
		to[p.Key.Value] = Value[T]{v, fmt.Sprintf("%s:%d", file, p.Key.Line)}
	}
	return problems
}

func (s *Settings) machine(file string, val *yaml.Node) []flow.Problem {
	if val.Kind == yaml.MappingNode && len(val.Content) == 2 && val.Content[0].Value == "maxConcurrent" {
		number, _ := yamldoc.Scalar(val.Content[1])
		if n, ok := number.(int64); ok && n >= 0 && n <= 1024 {
			s.Machine = Value[int]{int(n), fmt.Sprintf("%s:%d", file, val.Line)}
			return nil
		}
	}
	return wrongType(file, val, "machine must be {maxConcurrent: N}: how many agents may run at once, "+
		"from 0 (any number) to 1024")
}
