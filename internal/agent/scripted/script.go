package scripted

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// A script is the content of a scenario file.
type script struct {
	About string `yaml:"about"`
	Turns []turn `yaml:"turns"`
}

// A turn answers one prompt in steps, one for each request that it leads to.
type turn struct {
	When  when   `yaml:"when"`
	Steps []step `yaml:"steps"`
}

// A when selects the prompts that a turn answers. Unset fields match every prompt.
type when struct {
	Contains []string `yaml:"contains"`              // in the last prompt
	Context  []string `yaml:"context"`               // in any text that is not the model's
	Schema   *bool    `yaml:"schema"`                // whether an answer of a given shape is requested
	Nth      int      `yaml:"nth" range:"1-1048576"` // of the prompts, from 1
}

// A step is one response, or a fault instead.
type step struct {
	Items      []item        `yaml:"items"`
	Usage      usage         `yaml:"usage"`
	Slow       time.Duration `yaml:"slow"`
	Fail       *httpError    `yaml:"fail"`
	Cut        breakOff      `yaml:"cut"`
	Broken     *brokenError  `yaml:"broken"`
	Silent     bool          `yaml:"silent"`
	Incomplete string        `yaml:"incomplete"` // the reason
}

// usage is the usage that a response reports, in tokens.
type usage struct {
	Input     int `yaml:"input" range:"0-1099511627776"`
	Cached    int `yaml:"cached" range:"0-1099511627776"`
	Output    int `yaml:"output" range:"0-1099511627776"`
	Reasoning int `yaml:"reasoning" range:"0-1099511627776"`
}

// usual is the usage of a response whose step sets none.
var usual = usage{Input: 100, Cached: 10, Output: 20, Reasoning: 5}

// An httpError is a response with an error status. It, a breakOff and a brokenError happen the given number of times,
// or always if that is 0.
type httpError struct {
	Status  int            `yaml:"status" range:"400-599"`
	Body    string         `yaml:"body"`
	Headers map[string]any `yaml:"headers"`
	Times   int            `yaml:"times" range:"1-1048576"`
}

// A breakOff closes the connection in the middle of the last item. Its zero value does not.
type breakOff struct {
	on    bool
	Times int `yaml:"times" range:"1-1048576"`
}

// A brokenError is an error that the response itself reports.
type brokenError struct {
	Code    string `yaml:"code"`
	Message string `yaml:"message"`
	Times   int    `yaml:"times" range:"1-1048576"`
}

// An item is one thing that the model says or asks for: one of its fields is set.
type item struct {
	Reason *string  `yaml:"reason"`
	Say    *string  `yaml:"say"`
	Run    *command `yaml:"run"`
	Wait   int      `yaml:"wait" range:"1-1048576"` // which output came from the command, from 1
	Patch  *string  `yaml:"patch"`
	Call   *useTool `yaml:"call"`
	Answer *final   `yaml:"answer"`
}

// A command is a call of the tool exec_command.
type command struct {
	Cmd           string `yaml:"cmd"`
	Workdir       string `yaml:"workdir"`
	Escalate      bool   `yaml:"escalate"`
	Justification string `yaml:"justification"`
	Yield         int    `yaml:"yield_ms" range:"1-3600000"`
}

// A useTool is a call of any other tool.
type useTool struct {
	Namespace string         `yaml:"namespace"`
	Name      string         `yaml:"name"`
	Arguments map[string]any `yaml:"arguments"`
}

// A final is the answer that ends a turn.
type final struct {
	Text string         `yaml:"text"` // verbatim, or of auto
	JSON *any           `yaml:"json"` // as JSON, if set
	Auto bool           `yaml:"auto"` // in the requested form
	With map[string]any `yaml:"with"` // fields of auto
}

func (t *turn) read(n *yaml.Node) error {
	if err := readFields(n, t); err != nil {
		return err
	}
	if len(t.Steps) == 0 {
		return wrong(n, "steps are missing")
	}
	for i, st := range t.Steps {
		last := i == len(t.Steps)-1
		switch {
		case !last && st.calls() == 0:
			return wrong(n, "step %d calls no tool, so the turn ends there and step %d is never reached", i+1, i+2)
		case last && st.calls() > 0:
			return wrong(n, "step %d calls a tool, so a step for what comes then is missing", i+1)
		}
	}
	return nil
}

func (st *step) read(n *yaml.Node) error {
	st.Usage = usual
	if err := readFields(n, st); err != nil {
		return err
	}
	faults := 0
	for _, is := range []bool{st.Fail != nil, st.Cut.on, st.Broken != nil, st.Silent, st.Incomplete != ""} {
		if is {
			faults++
		}
	}
	times, _ := st.failure()
	switch {
	case faults > 1:
		return wrong(n, "only one of fail, cut, broken, silent and incomplete can be")
	case len(st.Items) == 0 && faults == 0:
		return wrong(n, "a step needs items, or one of fail, cut, broken, silent and incomplete")
	case len(st.Items) == 0 && st.Cut.on:
		return wrong(n, "cut needs items to begin with")
	case len(st.Items) == 0 && times > 0:
		return wrong(n, "times needs items for what comes after the failures")
	}
	return nil
}

// failure reports whether the step fails, and how many times, 0 for always.
func (st step) failure() (times int, fails bool) {
	switch {
	case st.Fail != nil:
		return st.Fail.Times, true
	case st.Cut.on:
		return st.Cut.Times, true
	case st.Broken != nil:
		return st.Broken.Times, true
	}
	return 0, false
}

func (e *httpError) read(n *yaml.Node) error {
	e.Status = http.StatusInternalServerError
	if err := readFields(n, e); err != nil {
		return err
	}
	for name, value := range e.Headers {
		if name == "" || strings.ContainsAny(name, " \t\r\n:") || strings.ContainsAny(fmt.Sprint(value), "\r\n") {
			return wrong(n, "%q is no header", name)
		}
	}
	return nil
}

func (b *breakOff) read(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return readValue(n, &b.on, "")
	}
	b.on = true
	return readFields(n, b)
}

func (b *brokenError) read(n *yaml.Node) error {
	b.Code, b.Message = "server_error", "the scenario wants this response to fail"
	return readFields(n, b)
}

func (it *item) read(n *yaml.Node) error {
	if n.Kind == yaml.MappingNode && len(n.Content) != 2 {
		return wrong(n, "an item is one key and its value; write the next one as an item of its own")
	}
	return readFields(n, it)
}

func (c *command) read(n *yaml.Node) error {
	var err error
	if n.Kind == yaml.ScalarNode {
		err = readValue(n, &c.Cmd, "")
	} else {
		err = readFields(n, c)
	}
	if err == nil && c.Cmd == "" {
		err = wrong(n, "a command is missing")
	}
	return err
}

// arguments returns those of the call.
func (c *command) arguments() object {
	args := object{"cmd": c.Cmd}
	if c.Workdir != "" {
		args["workdir"] = c.Workdir
	}
	if c.Escalate {
		args["sandbox_permissions"] = "require_escalated"
	}
	if c.Justification != "" {
		args["justification"] = c.Justification
	}
	if c.Yield > 0 {
		args["yield_time_ms"] = c.Yield
	}
	return args
}

func (u *useTool) read(n *yaml.Node) error {
	u.Arguments = map[string]any{}
	if err := readFields(n, u); err != nil {
		return err
	}
	if u.Name == "" {
		return wrong(n, "the name of the tool is missing")
	}
	return nil
}

func (f *final) read(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		f.Auto = n.Value == "auto" && n.Style == 0
		if f.Auto {
			return nil
		}
		return readValue(n, &f.Text, "")
	}
	if err := readFields(n, f); err != nil {
		return err
	}
	switch {
	case f.JSON != nil && (f.Auto || f.Text != "" || f.With != nil):
		return wrong(n, "json stands alone")
	case f.JSON == nil && !f.Auto:
		return wrong(n, "want a text, json: {…} or auto: true")
	case f.JSON != nil && *f.JSON == nil:
		return wrong(n, `json: null is no answer; write answer: "null"`)
	}
	return nil
}
