package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/yamldoc"
)

// What a person can be notified of.
const (
	OnNeedsYou = "needs-you" // a task needs a person
	OnDone     = "done"
	OnFailed   = "failed"
)

// Notify is how a person is notified, and of what. Without a command or a webhook nobody is notified.
type Notify struct {
	Command []string // a program, given by name or absolute path, and its arguments
	Webhook string
	On      []string // default: all
}

// notify reads the key notify. A project cannot set it: it runs a program, and sends away text from tasks.
func (s *Settings) notify(file string, key, val *yaml.Node, own bool) []flow.Problem {
	if !own {
		return []flow.Problem{problem(file, "NOT_HERE", yamldoc.Errorf(key,
			"notify belongs to your own configuration, not to a project's: it runs a command and sends data away"))}
	}
	if val.Kind != yaml.MappingNode {
		return wrongType(file, val, "notify must be a mapping with command, webhook and on")
	}
	n := Notify{On: []string{OnNeedsYou, OnDone, OnFailed}}
	list, problems := pairs(file, val)
	for _, p := range list {
		var why string
		switch name := p.Key.Value; name {
		case "command":
			n.Command, why = notifyCommand(p.Value)
		case "webhook":
			n.Webhook, why = notifyURL(p.Value)
		case "on":
			n.On, why = notifyEvents(p.Value, n.On)
		default:
			problems = append(problems, problem(file, "UNKNOWN_KEY", yamldoc.Errorf(p.Key,
				"unknown key %q; there are command, webhook and on", name)))
		}
		if why != "" {
			problems = append(problems, wrongType(file, p.Value, "notify."+p.Key.Value+" must be "+why)...)
		}
	}
	s.Notify = Value[Notify]{n, fmt.Sprintf("%s:%d", file, key.Line)}
	return problems
}

// notifyCommand reads a program and its arguments, or returns in why what they must be.
func notifyCommand(n *yaml.Node) (argv []string, why string) {
	why = "a list of a program, by its name or absolute path, and its arguments"
	if n.Kind != yaml.SequenceNode || n.Decode(&argv) != nil || len(argv) == 0 || argv[0] == "" ||
		strings.ContainsRune(argv[0], '/') && !filepath.IsAbs(argv[0]) ||
		slices.ContainsFunc(argv, func(a string) bool { return strings.ContainsRune(a, 0) }) {
		return nil, why
	}
	return argv, ""
}

// notifyURL reads an address that text from tasks can safely be sent to, or returns in why what it must be.
func notifyURL(n *yaml.Node) (address, why string) {
	why = "an https address, or an http address of this machine"
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		return "", why
	}
	u, err := url.Parse(n.Value)
	if err != nil || u.Hostname() == "" {
		return "", why
	}
	here := u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	if u.Scheme != "https" && !(u.Scheme == "http" && here) {
		return "", why
	}
	return n.Value, ""
}

func notifyEvents(n *yaml.Node, all []string) (on []string, why string) {
	why = fmt.Sprintf("a list of %s", strings.Join(all, ", "))
	if n.Kind != yaml.SequenceNode || n.Decode(&on) != nil ||
		slices.ContainsFunc(on, func(e string) bool { return !slices.Contains(all, e) }) {
		return all, why
	}
	return on, ""
}

// text describes n without what may be secret: the address of a webhook often is.
func (n Notify) text() string {
	var to []string
	if len(n.Command) > 0 {
		to = append(to, fmt.Sprintf("command %q", n.Command[0]))
	}
	if u, err := url.Parse(n.Webhook); err == nil && n.Webhook != "" {
		to = append(to, "webhook at "+u.Host)
	}
	return fmt.Sprintf("%s on %s", strings.Join(to, ", "), strings.Join(n.On, ", "))
}
