package acp

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
)

// APIs by which agents ask models.
const (
	Messages  = "messages"  // Anthropic
	Responses = "responses" // OpenAI
	Chat      = "chat"      // OpenAI, and most others
	Gemini    = "gemini"    // Google
)

// A Kind is what is known of one agent: how it differs from others, as data. In texts of Args, Env and Files
// {home} stands for the agent's own directory, {url} for the address of its gateway without the version of the
// API, {token} for what it shows there, {model} for the model, and {cache} for a directory that all tasks share.
type Kind struct {
	Name    string // by which people call it
	Title   string
	Package Package // zero: it is found by its command
	Args    []string
	Env     map[string]string
	Files   map[string]string // that are there before it starts, below its home
	Routes  []Route           // to its model, the preferred one first; none: it finds it by itself
	Tokens  []string          // variables with a login of its own: who passes one lets it go direct
	// MCP are arguments by which it is given the server of the tool deliver, where session/new does not do it: {command}
	// and {args} in them are JSON.
	MCP []string
	// Free makes it work without questions, where a wall bounds it; Ask makes it ask for each command and change.
	Free, Ask Setting
	// Silent says that it runs commands or changes files without a question: without a wall it is not started.
	Silent bool
	// Kept is the form of the file below its home that is there once a session can be loaded: {id} is the session's,
	// * any name; "" is not known.
	Kept string
	// LoadsLater says that a session can only be loaded in a later minute of the clock than it began in.
	LoadsLater bool
	// Stays says that it does not end when its input does.
	Stays bool
	Usage Usage
	// Exit finds the exit code in what a command gave, where the agent says it in no field.
	Exit *regexp.Regexp
	// Notice is the form of pieces of text that it says by itself and not its model.
	Notice *regexp.Regexp
	// Failed is the form of a piece of text by which it says that its model could not be asked, and ends its turn well.
	Failed *regexp.Regexp
}

// A Package is how npm has an agent.
type Package struct {
	Name    string
	Version string // with which Plait is tested
	Program string // in the directory it was installed to, a pattern
	Node    bool   // it is a script, run by Node 22 or newer
}

// A Route is one way in which an agent can be pointed at a model.
type Route struct {
	API   string
	Env   map[string]string
	Files map[string]string
}

// A Setting is what is set in a new or loaded session.
type Setting struct {
	Mode    string            // session/set_mode, "" for none
	Options map[string]string // session/set_config_option
}

// A Usage says what the tokens mean that an agent reports.
type Usage string

// What agents report. Where there is a gateway, none of it counts.
const (
	Unreported Usage = ""
	OfTurn     Usage = "turn"    // of the turn, input without what was cached
	OfProcess  Usage = "process" // of all turns of the process, input with what was cached
	OfLast     Usage = "last"    // of the last request: of no use
	InChunks   Usage = "chunks"  // in empty chunks of text, one a request
)

// Named returns what is known of an agent.
func Named(name string) (Kind, bool) {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return Kinds[i], true
}

// Names are the agents that are known.
func Names() []string {
	var names []string
	for _, k := range Kinds {
		names = append(names, k.Name)
	}
	return names
}

// kindOf returns what is known of the agent that a definition means.
func kindOf(c Config) (Kind, error) {
	switch k, ok := Named(c.Kind); {
	case c.Kind != "" && len(c.Command) > 0:
		return k, fmt.Errorf("acp agent: agent and command exclude each other")
	case c.Kind == "" && len(c.Command) == 0:
		return k, fmt.Errorf("acp agent: name an agent (%s) or a command", strings.Join(Names(), ", "))
	case c.Kind != "" && !ok:
		return k, fmt.Errorf("acp agent: no agent is called %q; there are %s, and any other by its command", c.Kind, strings.Join(Names(), ", "))
	case ok:
		return k, nil
	}
	return Kind{Name: "command", Title: c.Command[0], Args: c.Command[1:]}, nil
}

// setting returns what is to be set for an attempt.
func (k Kind) setting(walled bool, access agent.Access) Setting {
	if walled || access == agent.Full {
		return k.Free
	}
	return k.Ask
}

// Install says how to get an agent.
func (k Kind) Install() string {
	if k.Package.Name == "" {
		return "correct the agent's command"
	}
	node := ""
	if k.Package.Node {
		node = " (it needs Node 22 or newer)"
	}
	return fmt.Sprintf("install it with `npm install -g %s@%s`%s, or set path: in the agent's definition", k.Package.Name, k.Package.Version, node)
}
