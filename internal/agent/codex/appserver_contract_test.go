package codex

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/proc"
)

// A contract is the protocol as the real Codex describes it.
type contract struct {
	dir     string
	methods map[string]string // of the client's requests: the definition of their params
	// the same for the server's notifications and requests, and the client's notifications
	notifications, requests, clientOwn map[string]string
	definitions                        map[string]json.RawMessage
}

func readContract(t *testing.T) *contract {
	t.Helper()
	_, p := needCodex(t)
	c := &contract{dir: t.TempDir()}
	home := t.TempDir()
	res, err := proc.Run(t.Context(), proc.Config{
		Path: p.Path, Args: []string{"app-server", "generate-json-schema", "--out", c.dir, "--experimental"},
		Dir: home, Env: proc.Environ(nil, nil, []string{"CODEX_HOME=" + home}, ""), Wall: 30 * time.Second,
	})
	if err != nil || res.Exit != 0 {
		t.Fatalf("Codex does not write its schema: %+v, %v", res, err)
	}
	read := func(file string) map[string]string {
		var u struct {
			OneOf []struct {
				Properties struct {
					Method struct{ Enum []string }
					Params struct {
						Ref string `json:"$ref"`
					}
				}
			}
			Definitions map[string]json.RawMessage
		}
		if err := json.Unmarshal([]byte(fileText(t, filepath.Join(c.dir, file))), &u); err != nil {
			t.Fatal(err)
		}
		if c.definitions == nil {
			c.definitions = u.Definitions
		}
		all := map[string]string{}
		for _, o := range u.OneOf {
			for _, m := range o.Properties.Method.Enum {
				all[m] = strings.TrimPrefix(o.Properties.Params.Ref, "#/definitions/")
			}
		}
		if len(all) == 0 {
			t.Fatalf("%s names no methods: the form of the schema has changed", file)
		}
		return all
	}
	c.methods = read("ClientRequest.json")
	c.notifications, c.requests, c.clientOwn = read("ServerNotification.json"), read("ServerRequest.json"),
		read("ClientNotification.json")
	return c
}

// understood are the notifications and requests of the server that this package
// handles.
var understood = struct{ notifications, requests []string }{
	[]string{
		"turn/started", "turn/completed", "item/started", "item/completed", "item/agentMessage/delta",
		"item/commandExecution/outputDelta",
		"turn/diff/updated", "turn/plan/updated", "thread/tokenUsage/updated", "error", "serverRequest/resolved",
		"warning", "configWarning",
		"mcpServer/startupStatus/updated",
	},
	[]string{
		"item/commandExecution/requestApproval", "item/fileChange/requestApproval", "mcpServer/elicitation/request",
		"item/permissions/requestApproval",
		"currentTime/read", "item/tool/requestUserInput",
	},
}

// TestContractListsAreWhole checks the lists above against the code.
func TestContractListsAreWhole(t *testing.T) {
	for file, list := range map[string][]string{"receive.go": understood.notifications,
		"approval.go": understood.requests} {
		text := fileText(t, file)
		for _, m := range list {
			if !strings.Contains(text, `"`+m+`"`) {
				t.Errorf("%s does not speak of %s", file, m)
			}
		}
		for line := range strings.Lines(text) {
			names, ok := strings.CutPrefix(strings.TrimSpace(line), `case "`)
			if !ok || !strings.HasSuffix(names, `":`) || !strings.Contains(names, "/") && file == "receive.go" {
				continue
			}
			for name := range strings.SplitSeq(strings.TrimSuffix(names, `":`), `", "`) {
				if strings.ContainsAny(name, "/") && !slices.Contains(list, name) {
					t.Errorf("%s deals with %s, which is not compared with the schema", file, name)
				}
			}
		}
	}
}

// TestContractCalls checks that Codex accepts what the code sends.
func TestContractCalls(t *testing.T) {
	c := readContract(t)
	sent := map[string]map[string]any{}
	note := func(y *appTry) {
		_, params := called(t, y)
		for method, p := range params {
			if sent[method] == nil {
				sent[method] = map[string]any{}
			}
			for key, value := range p {
				sent[method][key] = value
			}
		}
	}
	f := newFake(t, fakeScript{Turn: []string{said}})
	self := f.cfg
	self.Effort, self.Model, self.Config = "low", "some-model", map[string]any{"model_provider": "some"}
	rich, err := f.host.Agent(self)
	if err != nil {
		t.Fatal(err)
	}
	for _, access := range []agent.Access{agent.Read, agent.Write, agent.Full} {
		y := newAppTry(t, "go")
		y.req.Access, y.req.Shaped, y.req.Schema = access, true, json.RawMessage(`{"type":"object"}`)
		y.works(t, rich)
		note(y)
	}
	resumed := newAppTry(t, "go")
	resumed.req.Session = "some-session"
	resumed.works(t, rich)
	note(resumed)
	forked := newAppTry(t, "go")
	forked.req.From = &agent.Branch{Home: forked.req.Home, Session: "some-session", Turn: "some-turn"}
	forked.works(t, rich)
	note(forked)

	// A turn that is steered and then interrupted, and a session that is already
	// loaded.
	g := newFake(t, fakeScript{NoEnd: true, Turn: []string{said}})
	home := t.TempDir()
	first, second := newAppTry(t, "go"), newAppTry(t, "go")
	first.req.Home, second.req.Home = home, home
	more := make(chan agent.Addition, 1)
	more <- agent.Addition{Text: "more", Delivered: func() {}}
	first.req.Additions, second.req.Timeout = more, 3*time.Second
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran := false
	first.on = func(e agent.Event) {
		if e.Kind == agent.EventProgress && !ran {
			ran = true
			second.fails(t.Context(), t, g, agent.TimedOut)
			second.req.Session, second.req.Tag = second.session, second.req.Tag+"b"
			second.fails(t.Context(), t, g, agent.TimedOut)
			cancel()
		}
	}
	first.fails(ctx, t, g, agent.Cancelled)
	note(first)
	note(second)

	for _, m := range madeCalls {
		if _, ok := c.methods[m]; !ok {
			t.Errorf("Codex has no method %s any more", m)
		}
		if _, ok := sent[m]; !ok {
			t.Errorf("this test did not make the code call %s", m)
		}
	}
	for method, params := range sent {
		if _, ok := c.clientOwn[method]; ok {
			continue
		}
		name, ok := c.methods[method]
		if !ok || !slices.Contains(append([]string{"initialize"}, madeCalls...),
			method) {
			t.Errorf("%s is called: it is not in the lists of methods, or not in Codex's schema", method)
			continue
		}
		c.compare(t, method, name, params)
	}
}

// compare checks that the keys of params are properties of a definition, that
// required ones are present, and that the values fit.
func (c *contract) compare(t *testing.T, method, name string, params map[string]any) {
	t.Helper()
	var d struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	if err := json.Unmarshal(c.definitions[name], &d); err != nil {
		t.Errorf("the schema has no %s, the parameters of %s: %v", name, method, err)
		return
	}
	for key := range params {
		if _, ok := d.Properties[key]; !ok {
			t.Errorf("%s is sent with %s, which %s has no more", method, key, name)
		}
	}
	for _, key := range d.Required {
		if _, ok := params[key]; !ok {
			t.Errorf("%s is sent without %s, which %s requires now", method, key, name)
		}
	}
	// The values must fit too.
	whole := `{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/` + name + `","definitions":` +
		jsonOf(t, c.definitions) + `}`
	if err := fits(t, whole, params); err != nil {
		t.Errorf("the parameters of %s do not fit %s any more: %v", method, name, err)
	}
}

// fits validates a value.
func fits(t *testing.T, schema string, value any) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("mem:schema", doc); err != nil {
		t.Fatal(err)
	}
	s, err := compiler.Compile("mem:schema")
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(jsonOf(t, value)))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

func TestContractNews(t *testing.T) {
	c := readContract(t)
	for _, m := range understood.notifications {
		if _, ok := c.notifications[m]; !ok {
			t.Errorf("Codex does not send the notification %s any more", m)
		}
	}
	for _, m := range understood.requests {
		if _, ok := c.requests[m]; !ok {
			t.Errorf("Codex does not send the request %s any more", m)
		}
	}
}

// TestContractAnswers checks that Codex accepts what the code answers.
func TestContractAnswers(t *testing.T) {
	c := readContract(t)
	files := map[string]string{
		"item/commandExecution/requestApproval": "CommandExecutionRequestApprovalResponse",
		"item/fileChange/requestApproval":       "FileChangeRequestApprovalResponse",
		"mcpServer/elicitation/request":         "McpServerElicitationRequestResponse",
		"item/permissions/requestApproval":      "PermissionsRequestApprovalResponse",
		"currentTime/read":                      "CurrentTimeReadResponse",
		"item/tool/requestUserInput":            "ToolRequestUserInputResponse",
	}
	for _, approved := range []bool{true, false} {
		for _, method := range understood.requests {
			answer := answerTo(t, method, approved)
			schema, err := os.ReadFile(filepath.Join(c.dir, files[method]+".json"))
			if err != nil {
				t.Errorf("the schema of the answer to %s is gone: %v", method, err)
				continue
			}
			if err := fits(t, string(schema), answer); err != nil {
				t.Errorf("the answer to %s does not fit any more: %v", method, err)
			}
		}
	}
}
