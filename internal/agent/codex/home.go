package codex

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/sys/proc"
)

// keyVariable is the variable in which Codex finds the key of an Endpoint, which checks none.
const keyVariable = "PLAIT_ENDPOINT_KEY"

// endpointName is what an Endpoint is called in Codex's configuration.
const endpointName = "plait"

// inherited lists the settings that are copied from the user's own configuration: which
// model, and how to reach it, but none that runs or allows anything.
var inherited = []string{
	"model", "model_provider", "model_providers", "model_reasoning_effort", "model_reasoning_summary",
	"model_verbosity",
	"model_context_window", "model_catalog_json", "openai_base_url", "chatgpt_base_url", "preferred_auth_method",
	"forced_login_method",
	"forced_chatgpt_workspace_id", "service_tier", "cli_auth_credentials_store", "mcp_oauth_credentials_store",
}

// keyring are the variables needed to find a login in the system's keyring.
var keyring = []string{"DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"}

// A setup is the environment that Codex runs in.
type setup struct {
	program host.Program
	warning string // about the program's version
	home    string // CODEX_HOME
	apart   bool   // home is not in a hidden directory: see makeHome
	scratch string // see agent.Request
	dir     string // working directory
	env     []string
	// settings are what the definition adds to the home's configuration.
	settings map[string]any
	profile  profile          // unless the role has full access
	alone    string           // the attempt, if its processes are not shared, or ""
	modules  string           // the user's cache of Go modules, or ""
	route    *route           // to the model, nil: direct
	gateway  *gateway.Gateway // of the attempt, nil: there is none
}

// needs returns the directory that each Codex needs for itself. It has the links by which Codex starts its sandbox, and
// Codex removes those of processes that it cannot see, such as processes running elsewhere in isolation.
func (s *setup) needs() agent.Needs {
	needs := agent.Needs{Own: []string{filepath.Join(s.home, "tmp")}}
	if s.gateway != nil {
		needs.Gateway = s.gateway.Socket()
	}
	return needs
}

// setup prepares the task's home and returns what Codex needs to run there. A
// *agent.Failure says what a person must fix.
func (c Config) setup(h *Host, p host.Program, req agent.Request) (*setup, error) {
	s := &setup{program: p, scratch: cmp.Or(req.Scratch, req.Home)}
	if req.Wrap != nil {
		s.alone = req.Attempt
	}
	var err error
	if s.warning, err = Package.Advice(p); err != nil {
		return nil, agent.OfMachine("%v", err)
	}
	if s.dir, err = sandbox.Workdir(req.Dir, c.Dir); err != nil {
		return nil, agent.Final("cannot run Codex: %v", err)
	}
	if req.Home == "" {
		return nil, errors.New("run Codex: the request names no home")
	}
	if s.apart, err = makeHome(h, req.Home, req.Wrap != nil); err != nil {
		return nil, fmt.Errorf("make Codex's home: %w", err)
	}
	s.home = codexHome(req.Home)
	user := userHome(h.Getenv)
	mine, err := userSettings(user)
	if err != nil {
		return nil, agent.Final("%v", err)
	}
	servers := mine["mcp_servers"]
	if c.Endpoint != nil {
		mine = map[string]any{}
	}
	if servers != nil {
		mine["mcp_servers"] = disabled(servers)
	}
	shown := mine
	if req.Traffic != nil {
		if s.route = c.route(h, mine); s.route != nil && !s.route.fits(s.home, req) {
			s.route = nil // it continues as it began
		}
		if s.route != nil {
			shown = s.route.keyless(mine)
		}
	}
	if err := c.writeHome(s.home, user, shown); err != nil {
		return nil, fmt.Errorf("make Codex's home: %w", err)
	}
	dirs := []string{filepath.Join(s.home, helpers)}
	for _, name := range guarded {
		dirs = append(dirs, filepath.Join(s.tmp(), name), filepath.Join(s.cache(), name))
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make Codex's home: %w", err)
		}
	}
	if s.profile, err = c.profile(h, s, req); err != nil {
		return nil, err
	}
	s.modules = goModules(h.Getenv)
	s.settings = c.overrides()
	if s.route != nil {
		s.point(s.route.upstream.URL.String())
	}
	s.env = proc.First(req.Bin(), c.environ(h, s, mine, ways(req), req.Tag))
	return s, nil
}

// guarded are the places that Codex's sandbox keeps commands from writing although they can write the directory. It
// creates a missing one for a command and removes it afterwards: of two concurrent commands in a directory of the task,
// one would fail.
var guarded = []string{".git", ".aws", ".agents", ".codex"}

// tmp returns the temporary directory of the task's agents.
func (s *setup) tmp() string { return filepath.Join(s.scratch, "tmp") }

// userHome returns the directory of the user's own Codex, "" if there is none.
func userHome(getenv func(string) string) string {
	if home := getenv("CODEX_HOME"); home != "" {
		return home
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".codex")
	}
	return "" // never the current directory
}

// userSettings reads the inherited settings and the MCP servers from the user's configuration.
func userSettings(user string) (map[string]any, error) {
	if user == "" {
		return map[string]any{}, nil
	}
	file := filepath.Join(user, "config.toml")
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]any{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Codex's settings: %w", err)
	}
	var all map[string]any
	if err := toml.Unmarshal(data, &all); err != nil {
		var bad *toml.DecodeError
		if errors.As(err, &bad) {
			line, column := bad.Position()
			return nil, fmt.Errorf("%s:%d:%d: %w", file, line, column, err)
		}
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	mine := map[string]any{}
	for _, key := range append(slices.Clone(inherited), "mcp_servers") {
		if v, ok := all[key]; ok {
			mine[key] = v
		}
	}
	return mine, nil
}

// disabled returns a table of MCP servers with all of them disabled. An attempt enables those
// that its agent may use, so their settings, including keys, are in no argument and no log.
func disabled(servers any) map[string]any {
	table, _ := servers.(map[string]any)
	off := make(map[string]any, len(table))
	for name, server := range table {
		if settings, ok := server.(map[string]any); ok {
			settings = maps.Clone(settings)
			settings["enabled"] = false
			off[name] = settings
		}
	}
	return off
}

// serverVariables returns the variables that the named MCP servers read.
func serverVariables(settings map[string]any, names []string) []string {
	var variables []string
	table, _ := settings["mcp_servers"].(map[string]any)
	for _, name := range names {
		server, _ := table[name].(map[string]any)
		if name, ok := server["bearer_token_env_var"].(string); ok {
			variables = append(variables, name)
		}
		list, _ := server["env_vars"].([]any)
		headers, _ := server["env_http_headers"].(map[string]any)
		for _, v := range slices.AppendSeq(slices.Clone(list), maps.Values(headers)) {
			if name, ok := v.(string); ok {
				variables = append(variables, name)
			}
		}
	}
	return variables
}

// writeHome writes the home's configuration and links the user's login into it.
func (c Config) writeHome(home, user string, mine map[string]any) error {
	root, err := agent.OpenHome(home)
	if err != nil {
		return err
	}
	defer root.Close()
	settings := map[string]any{
		"check_for_update_on_startup": false,
		"allow_login_shell":           false, // its profile would replace our PATH
		"approval_policy":             "never",
		"default_permissions":         ":read-only",
		"web_search":                  "disabled",
		"analytics":                   map[string]any{"enabled": false},
		"agents":                      map[string]any{"enabled": false},
		"features": map[string]any{
			"plugins": false, "apps": false, "goals": false, "unbounded_connection_retries": false,
			"shell_snapshot": false, // it runs the user's ~/.bashrc, outside the sandbox
		},
		"shell_environment_policy": map[string]any{"inherit": "core"},
		// The project's instructions are in the prompt, once and for both interfaces.
		"project_doc_max_bytes": 0,
	}
	for key, value := range mine {
		settings[key] = value
	}
	const login = "auth.json"
	if e := c.Endpoint; e != nil {
		provider := impatient()
		provider["base_url"], provider["wire_api"] = e.URL, "responses"
		settings["model"], settings["model_provider"] = e.Model, endpointName
		settings["model_providers"] = map[string]any{endpointName: provider}
		if e.Catalog != nil {
			const catalog = "catalog.json"
			if err := writeIfChanged(root, catalog, e.Catalog); err != nil {
				return err
			}
			settings["model_catalog_json"] = filepath.Join(home, catalog)
		}
		if err := root.Remove(login); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	} else if from := filepath.Join(user, login); user != "" && exists(from) { // otherwise by key: Codex will say
		if err := agent.LinkIn(root, from, login); err != nil {
			return err
		}
	}
	data, err := toml.Marshal(settings)
	if err != nil {
		return err
	}
	return writeIfChanged(root, "config.toml", data)
}

// writeIfChanged replaces a file unless it already contains data. Attempts that start
// concurrently write the same.
func writeIfChanged(home *os.Root, name string, data []byte) error {
	if f, err := agent.OpenIn(home, name); err == nil {
		defer f.Close()
		if old, err := io.ReadAll(io.LimitReader(f, int64(len(data))+1)); err == nil && bytes.Equal(old, data) {
			return nil
		}
	}
	return agent.ReplaceIn(home, name, bytes.NewReader(data))
}

// overrides returns the settings with which the definition overrides the home's configuration.
func (c Config) overrides() map[string]any {
	o := make(map[string]any, len(c.Config)+2)
	for key, value := range c.Config {
		o[key] = value
	}
	if c.Model != "" && c.Endpoint == nil {
		o["model"] = c.Model
	}
	if c.Effort != "" {
		o["model_reasoning_effort"] = c.Effort
	}
	if len(c.MCP) > 0 {
		own, _ := o["mcp_servers"].(map[string]any)
		servers := make(map[string]any, len(own)+len(c.MCP))
		maps.Copy(servers, own)
		for _, name := range c.MCP {
			servers[name] = map[string]any{"enabled": true}
		}
		o["mcp_servers"] = servers
	}
	if c.Endpoint != nil {
		for key := range o {
			if top, _, _ := strings.Cut(key, "."); top == "model_provider" || top == "model_providers" ||
				top == "model_catalog_json" || top == "model" {
				delete(o, key)
			}
		}
	}
	return o
}

// environ returns the environment of Codex itself. Its commands get less: see
// shellPolicy.
func (c Config) environ(h *Host, s *setup, mine map[string]any, way []string, tag string) []string {
	extra := make(map[string]string, len(c.Env)+3)
	for key, value := range c.Env {
		extra[key] = value
	}
	pass := append([]string{apiKey}, c.Pass...)
	if c.Endpoint != nil {
		pass = c.Pass
		extra[keyVariable] = "unused"
	}
	if store, _ := mine["cli_auth_credentials_store"].(string); store == "keyring" || store == "auto" {
		pass = append(pass, keyring...)
	}
	keys := slices.Concat(keyNames(mine), keyNames(c.Config))
	named := slices.DeleteFunc(slices.Concat(keys, serverVariables(mine, c.MCP)), func(name string) bool {
		return h.Getenv(name) == "" // what is not for agents is not there, whatever the user's settings name
	})
	pass = slices.Concat(pass, named, networkNames, c.Sandbox.Pass)
	if s.route != nil { // the gateway has the key
		keys = append(keys, apiKey)
		pass = slices.DeleteFunc(pass, func(name string) bool { return slices.Contains(keys, name) })
		maps.DeleteFunc(extra, func(name, _ string) bool { return slices.Contains(keys, name) })
		extra["NO_PROXY"], extra["no_proxy"] = here(os.Getenv), here(os.Getenv)
	}
	return proc.Environ(pass, extra, slices.Concat(way, []string{"CODEX_HOME=" + s.home, "TMPDIR=" + s.tmp()}), tag)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// isBelow reports whether path is dir or below it, with links resolved.
func isBelow(dir, path string) bool {
	rel, err := filepath.Rel(resolve(dir), resolve(path))
	return err == nil && filepath.IsLocal(rel)
}

func resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// keyNames returns the variables in which the configured providers look for
// their keys.
func keyNames(settings map[string]any) []string {
	var names []string
	providers, _ := settings["model_providers"].(map[string]any)
	for _, p := range providers {
		provider, _ := p.(map[string]any)
		if name, ok := provider["env_key"].(string); ok && name != "" {
			names = append(names, name)
		}
		headers, _ := provider["env_http_headers"].(map[string]any)
		for _, v := range headers {
			if name, ok := v.(string); ok && name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}
