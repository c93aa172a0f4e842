package acp

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
)

// APIs that agents use.
const (
	Messages  = "messages"  // Anthropic
	Responses = "responses" // OpenAI
	Chat      = "chat"      // OpenAI, and most others
	Gemini    = "gemini"    // Google
)

// A Kind describes how an agent differs from others. In Args, Env and Files, {home} stands for
// the agent's own directory, {url} for the URL of its gateway without the version of the API,
// {token} for its token there, {model} for the model, and {cache} for a directory that all tasks
// share.
type Kind struct {
	host.Package // without NPM: it is found by its command
	Args         []string
	Env          map[string]string
	Files        map[string]string // files to create below its home before it starts
	Routes       []Route           // to its model, the preferred one first; none: it configures itself
	Tokens       []string          // variables with its own login: if one is passed, it connects directly
	// MCP are arguments that configure the server of the tool deliver, if session/new does not:
	// {command} and {args} in them are JSON.
	MCP []string
	// Free lets it work without asking, in a sandbox; Ask makes it ask for each command and
	// change.
	Free, Ask Setting
	// Silent says that it runs commands or changes files without asking: it is not started
	// without a sandbox.
	Silent bool
	// Kept is a pattern of a file below its home that exists once a session can be loaded: {id}
	// is the session's id, * any name; "" means not known.
	Kept string
	// LoadsLater says that a session can only be loaded in a later minute than it began in.
	LoadsLater bool
	// Stays says that it does not exit when its input is closed.
	Stays bool
	Usage Usage
	// Exit matches the exit code in a command's output, if no field has it.
	Exit *regexp.Regexp
	// Notice matches pieces of text that come from the agent itself, not from its model. Again matches those that
	// say that it repeats its request: what the model has said so far is not part of its answer.
	Notice, Again *regexp.Regexp
	// Failed matches a piece of text with which it reports that its model failed, before it ends
	// its turn as usual.
	Failed *regexp.Regexp
}

// A Route is one way to configure the model of an agent.
type Route struct {
	API   string
	Env   map[string]string
	Files map[string]string
}

// A Setting is set in a new or loaded session.
type Setting struct {
	Mode    string            // session/set_mode, "" for none
	Options map[string]string // session/set_config_option
}

// A Usage says what an agent's token counts mean.
type Usage string

// Meanings of token counts. They are not used if there is a gateway.
const (
	Unreported Usage = ""
	OfTurn     Usage = "turn"    // of the turn, input without cached tokens
	OfProcess  Usage = "process" // of all turns of the process, input including cached tokens
	OfLast     Usage = "last"    // of the last request: useless
	InChunks   Usage = "chunks"  // in empty text chunks, one per request
)

// Named returns the description of an agent.
func Named(name string) (Kind, bool) {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return Kinds[i], true
}

// Names returns the known agents.
func Names() []string {
	var names []string
	for _, k := range Kinds {
		names = append(names, k.Name)
	}
	return names
}

// kindOf returns the description of the agent in a definition.
func kindOf(c Config) (Kind, error) {
	switch k, ok := Named(c.Kind); {
	case c.Kind != "" && len(c.Command) > 0:
		return k, fmt.Errorf("acp agent: agent and command exclude each other")
	case c.Kind == "" && len(c.Command) == 0:
		return k, fmt.Errorf("acp agent: name an agent (%s) or a command", strings.Join(Names(), ", "))
	case c.Kind != "" && !ok:
		return k, fmt.Errorf("acp agent: no agent is called %q: use %s, or give its command", c.Kind,
			strings.Join(Names(), ", "))
	case ok:
		return k, nil
	}
	return Kind{Package: host.Package{Name: "command", Title: c.Command[0]}, Args: c.Command[1:]}, nil
}

// setting returns the setting of an attempt.
func (k Kind) setting(confined bool, access agent.Access) Setting {
	if confined || access == agent.Full {
		return k.Free
	}
	return k.Ask
}
