package agent

import (
	"context"
	"strings"
)

// Traffic intercepts the requests of an agent to its model: it enforces limits, records requests,
// and can answer instead of the model. Its methods are called concurrently. See Request.Traffic.
type Traffic interface {
	// Begin is called before a call is sent. It returns a reply to use instead of the model's, or
	// nil to send the call. An error refuses the call; its text reaches the agent.
	Begin(ctx context.Context, c *Call) (*Reply, error)
	// End is called once the reply of a call is complete or has broken off, with its usage. Every
	// Begin that returned neither a reply nor an error is followed by one End.
	End(c *Call, r Reply, used Usage)
}

// A Call is a request to a model as the agent sent it.
type Call struct {
	Method string // POST
	Path   string // below the base of the API: /messages, /responses, /chat/completions, /models/NAME:generateContent
	Type   string // of Body: application/json
	Body   []byte
}

// Generates reports whether the call asks a model to generate tokens.
func (c *Call) Generates() bool {
	return c.Method == "POST" && (c.Path == "/messages" || c.Path == "/responses" || c.Path == "/chat/completions" ||
		strings.HasSuffix(c.Path, ":generateContent") || strings.HasSuffix(c.Path, ":streamGenerateContent"))
}

// Model returns the model in the path, as in the Gemini API; "" if the body names it.
func (c *Call) Model() string {
	name, _ := strings.CutPrefix(c.Path, "/models/")
	model, _, named := strings.Cut(name, ":")
	if !named {
		return ""
	}
	return model
}

// A Reply is the model's reply, byte for byte.
type Reply struct {
	Status int    // 0: there was none
	Type   string // of Body: text/event-stream, application/json
	Body   []byte
	Cut    bool // it broke off, or is longer than what is kept
	// Estimated says that it reported no usage, or broke off before that.
	Estimated bool
}
