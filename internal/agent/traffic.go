package agent

import (
	"context"
	"strings"
)

// Traffic has a say in what an agent asks its model: it holds the budget, keeps the record, and can
// answer in the model's place. Its methods are called concurrently. See Request.Traffic.
type Traffic interface {
	// Begin is told of a call before it is sent. It returns the reply to give in place of the model's,
	// or nil to send it. An error refuses the call; its text reaches the agent.
	Begin(ctx context.Context, c *Call) (*Reply, error)
	// End is told of a call that was sent once its reply is over, with what it used: also of one that
	// was cut off, with what there was of it. Every Begin that returned neither a reply nor an error
	// is followed by one End.
	End(c *Call, r Reply, used Usage)
}

// A Call is what an agent asks its model, as it came.
type Call struct {
	Method string // POST
	Path   string // below the base of the API: /messages, /responses, /chat/completions, /models/NAME:generateContent
	Type   string // of Body: application/json
	Body   []byte
}

// Generates reports whether the call asks a model for an answer, which takes tokens.
func (c *Call) Generates() bool {
	return c.Method == "POST" && (c.Path == "/messages" || c.Path == "/responses" || c.Path == "/chat/completions" ||
		strings.HasSuffix(c.Path, ":generateContent") || strings.HasSuffix(c.Path, ":streamGenerateContent"))
}

// Model returns the model that a path names, as those of the Gemini API do; "" where the body names it.
func (c *Call) Model() string {
	name, _ := strings.CutPrefix(c.Path, "/models/")
	model, _, named := strings.Cut(name, ":")
	if !named {
		return ""
	}
	return model
}

// A Reply is what the model answered, byte for byte.
type Reply struct {
	Status int    // 0: none came
	Type   string // of Body: text/event-stream, application/json
	Body   []byte
	Cut    bool // it ended before its end, or is longer than what is kept
	// Estimated says that it did not tell what it used, or was cut off before it did.
	Estimated bool
}
