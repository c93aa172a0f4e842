package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/sys/atomicfile"
	"github.com/plait-run/plait/internal/sys/jsonrpc"
	"github.com/plait-run/plait/internal/sys/text"
)

// Names for submitting an answer.
const (
	deliverTool   = "deliver"
	deliverServer = "plait"
	deliverText   = "text" // replaces [agent.Body]
)

// deliverNote ends a prompt whose answer must be submitted.
const deliverNote = "\n\nTo answer, call the tool deliver of the MCP server plait, once, when your work is done: its " +
	"arguments are the\n" +
	"properties of that object, without the dollar sign, and text in the place of " + agent.Body + "."

// deliverAgain is the prompt if no answer was submitted.
const deliverAgain = "You have not submitted your answer. Call the tool deliver of the MCP server plait now, and " +
	"do nothing else."

// A delivery is how the answer of an attempt is submitted: with an MCP tool, which every agent
// can use. Models do not accept dollar signs in the names of arguments.
type delivery struct {
	Schema json.RawMessage   `json:"schema"` // of the role
	Tool   json.RawMessage   `json:"tool"`   // of the tool's arguments
	Names  map[string]string `json:"names"`  // from arguments to the role's properties

	home                 string // the agent's own directory
	specFile, answerFile string // in it
}

// newDelivery derives the tool's arguments from a role's schema. It is an error if the schema has
// no properties.
func newDelivery(schema json.RawMessage) (*delivery, error) {
	var root struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
		Defs       json.RawMessage            `json:"$defs,omitempty"`
	}
	if err := json.Unmarshal(schema, &root); err != nil || root.Type != "object" || len(root.Properties) == 0 {
		return nil, errors.New("the schema is not of an object with properties")
	}
	d := &delivery{Schema: schema, Names: map[string]string{}}
	arguments := map[string]json.RawMessage{}
	named := map[string]string{}
	for name, of := range root.Properties {
		as := strings.ReplaceAll(name, "$", "")
		taken := func() bool {
			_, other := root.Properties[as]
			return as == "" || as != name && other || as == deliverText
		}
		for taken() {
			as += "_"
		}
		d.Names[as], named[name], arguments[as] = name, as, of
	}
	arguments[deliverText] = json.RawMessage(`{"type":"string","description":"your answer, for people to read"}`)
	if status, ok := named["$status"]; ok {
		arguments[status] = suspendable(arguments[status])
		if _, taken := arguments["reason"]; !taken {
			arguments["reason"] = json.RawMessage(`{"type":"string","description":"with ` + flow.Suspend +
				`: what a person must answer"}`)
			d.Names["reason"] = "reason"
		}
	}
	required := []string{}
	for _, name := range root.Required {
		required = append(required, named[name])
	}
	tool := map[string]any{"type": "object", "properties": arguments, "required": required}
	if len(root.Defs) > 0 {
		tool["$defs"] = root.Defs
	}
	var err error
	d.Tool, err = json.Marshal(tool)
	return d, err
}

// suspendable adds the status that asks a person.
func suspendable(status json.RawMessage) json.RawMessage {
	var s map[string]any
	if json.Unmarshal(status, &s) != nil {
		return status
	}
	if list, ok := s["enum"].([]any); ok {
		s["enum"] = append(list, flow.Suspend)
	}
	out, err := json.Marshal(s)
	if err != nil {
		return status
	}
	return out
}

// offer writes the tool's description to the file in the agent's home where the server finds it.
func (d *delivery) offer(home, attempt string) error {
	name := strings.NewReplacer("/", "_", ".", "_").Replace(attempt)
	d.home = home
	d.specFile, d.answerFile = filepath.Join("deliver", name+".offered.json"), filepath.Join("deliver", name+".json")
	data, err := json.Marshal(d)
	if err == nil {
		err = d.put(data)
	}
	if err != nil {
		return fmt.Errorf("offer the tool %s: %w", deliverTool, err)
	}
	return nil
}

// put writes the description, and removes an earlier answer.
func (d *delivery) put(data []byte) error {
	root, err := os.OpenRoot(d.home)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.RemoveAll(d.answerFile); err != nil {
		return err
	}
	return agent.ReplaceIn(root, d.specFile, bytes.NewReader(data))
}

// servers returns the MCP servers of a session, in the form of session/new.
func (d *delivery) servers(k Kind, command []string) []any {
	if d == nil || len(k.MCP) > 0 {
		return []any{}
	}
	return []any{map[string]any{"name": deliverServer, "command": command[0], "args": d.line(command), "env": []any{}}}
}

// arguments returns the arguments for agents that take the server in another way.
func (d *delivery) arguments(k Kind, command []string) []string {
	if d == nil {
		return nil
	}
	program, err1 := json.Marshal(command[0])
	args, err2 := json.Marshal(d.line(command))
	if err1 != nil || err2 != nil {
		return nil // cannot happen: these are texts
	}
	var out []string
	for _, arg := range k.MCP {
		out = append(out, strings.NewReplacer("{command}", string(program), "{args}", string(args)).Replace(arg))
	}
	return out
}

// line returns the command line of the server.
func (d *delivery) line(command []string) []string {
	files := []string{filepath.Join(d.home, d.specFile), filepath.Join(d.home, d.answerFile)}
	return append(append([]string{}, command[1:]...), files...)
}

// submitted reports whether an answer was submitted.
func (d *delivery) submitted() bool {
	_, err := os.Lstat(filepath.Join(d.home, d.answerFile))
	return err == nil
}

// answer returns the submitted answer as front matter and text; said is the agent's text besides
// it.
func (d *delivery) answer(said string) ([]byte, error) {
	root, err := os.OpenRoot(d.home)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := agent.OpenIn(root, d.answerFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, agent.MaxOutput+1))
	if err == nil && len(data) > agent.MaxOutput {
		err = fmt.Errorf("it has over %d bytes", agent.MaxOutput)
	}
	if err != nil {
		return nil, err
	}
	return frontMatter(data, said)
}

// frontMatter returns an answer in one object, with its text in [agent.Body], as front matter and
// text.
func frontMatter(object []byte, said string) ([]byte, error) {
	var meta map[string]json.RawMessage
	if err := json.Unmarshal(object, &meta); err != nil {
		return nil, err
	}
	var body string
	if json.Unmarshal(meta[agent.Body], &body) != nil || body == "" {
		body = said
	}
	delete(meta, agent.Body)
	head, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "---\n%s\n---\n\n%s", head, body), nil
}

// take converts a tool's arguments to the answer, or says what is wrong with them.
func (d *delivery) take(arguments json.RawMessage) ([]byte, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &given); err != nil {
		return nil, errors.New("the arguments are not an object")
	}
	meta := map[string]json.RawMessage{}
	for as, value := range given {
		if name, ok := d.Names[as]; ok {
			meta[name] = value
		} else if as != deliverText {
			return nil, fmt.Errorf("there is no argument %q", as)
		}
	}
	if err := d.check(meta); err != nil {
		return nil, err
	}
	if text, ok := given[deliverText]; ok {
		meta[agent.Body] = text
	}
	return json.Marshal(meta)
}

// check validates an answer against the role's schema. An answer that asks a person is always
// valid.
func (d *delivery) check(answer map[string]json.RawMessage) error {
	meta := map[string]any{}
	for name, raw := range answer {
		var value any
		if err := json.Unmarshal(raw, &value); err != nil {
			return err
		}
		meta[name] = value
	}
	def := flow.Definition{Roles: map[string]flow.Role{deliverTool: {Frontmatter: d.Schema}}}
	return def.Validate(deliverTool, meta)
}

// Deliver serves the tool deliver over in and out, as described in the file offered, and writes
// the answer to the file handed. It returns when the client disconnects.
func Deliver(ctx context.Context, offered, handed string, in io.ReadCloser, out io.WriteCloser) error {
	data, err := os.ReadFile(offered)
	if err != nil {
		return fmt.Errorf("serve %s: %w", deliverTool, err)
	}
	var d delivery
	if err := json.Unmarshal(data, &d); err != nil {
		return fmt.Errorf("serve %s: %w", deliverTool, err)
	}
	s := sdk.NewServer(&sdk.Implementation{Name: deliverServer, Version: "1"},
		&sdk.ServerOptions{Capabilities: &sdk.ServerCapabilities{}})
	s.AddTool(&sdk.Tool{Name: deliverTool, Description: "Hand back your answer. Call it once, when your work is done.",
		InputSchema: d.Tool},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			answer, err := d.take(r.Params.Arguments)
			if err == nil {
				err = atomicfile.Write(handed, answer, 0o600)
			}
			said := "Your answer was taken. End your turn."
			if err != nil {
				said = "Your answer was not taken: " + text.Clip(err.Error(), 2000)
			}
			return &sdk.CallToolResult{IsError: err != nil, Content: []sdk.Content{&sdk.TextContent{Text: said}}}, nil
		})
	return s.Run(ctx, &jsonrpc.Transport{In: in, Out: out})
}
