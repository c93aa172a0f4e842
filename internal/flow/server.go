package flow

import (
	"net/url"

	"go.yaml.in/yaml/v4"
)

// A ModelServer specifies which server an agent of kind model uses, and how.
type ModelServer struct {
	URL      string `json:"url,omitempty"`
	API      string `json:"api,omitempty"`      // chat or messages
	KeyEnv   string `json:"keyEnv,omitempty"`   // the user's environment variable that holds the key
	MaxTurns int    `json:"maxTurns,omitempty"` // requests of one attempt
}

// address reads the base of an API.
func (r *reader) address(n *yaml.Node) string {
	s := r.text(n, "url")
	switch u, err := url.Parse(s); {
	case s == "":
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		r.report(n, codeBadAgent, "%q is not the address of a server, such as http://localhost:11434/v1", s)
	case u.User != nil || u.RawQuery != "":
		r.report(n, codeBadAgent, "url has no place for a key: name the variable that has it by keyEnv")
	}
	return s
}

// api reads which API a server speaks.
func (r *reader) api(n *yaml.Node) string {
	s := r.text(n, "api")
	if s != "" && s != "chat" && s != "messages" {
		r.report(n, codeBadAgent, "api is chat or messages, not %q", s)
	}
	return s
}

// variable reads the name of a variable.
func (r *reader) variable(n *yaml.Node) string {
	s := r.text(n, "keyEnv")
	if s != "" && !envName.MatchString(s) {
		r.report(n, codeBadAgent, "keyEnv is the name of a variable that has the key, never the key itself")
	}
	return s
}
