package codex

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/host"
)

// A route leads through a gateway to Codex's model.
type route struct {
	name     string // of the provider: a session can only continue with the provider that it began with
	upstream gateway.Upstream
	provider map[string]any // settings of the provider, without its URL and key
}

// openai is the URL of OpenAI's API.
const openai = "https://api.openai.com/v1"

// nowhere is an upstream without a model.
var nowhere = gateway.Upstream{URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/v1"}}

// route returns the route to the model, or to none in a replay; nil if Codex must connect
// directly.
func (c Config) route(h *Host, mine map[string]any) *route {
	r := c.routeFor(h, mine)
	if r != nil && c.Replay {
		r.upstream = nowhere
	}
	return r
}

// routeFor returns the route to the model, or nil if Codex must connect directly: with a ChatGPT login, or with
// settings that the gateway does not support. mine are the user's settings.
func (c Config) routeFor(h *Host, mine map[string]any) *route {
	get := func(variable string) string { return cmp.Or(c.Env[variable], h.Getenv(variable)) }
	setting := func(key string) string {
		own, _ := c.Config[key].(string)
		users, _ := mine[key].(string)
		return cmp.Or(own, users)
	}
	if e := c.Endpoint; e != nil {
		return newRoute(endpointName, e.URL, "", impatient())
	}
	name := setting("model_provider")
	if name == "" || name == "openai" {
		if get(apiKey) == "" && !c.Replay {
			return nil
		}
		return newRoute(gatewayName, cmp.Or(setting("openai_base_url"), openai), get(apiKey),
			map[string]any{"name": "openai"})
	}
	var provider map[string]any
	for _, from := range []map[string]any{mine, c.Config} {
		all, _ := from["model_providers"].(map[string]any)
		if p, ok := all[name].(map[string]any); ok {
			provider = p
		}
	}
	for _, other := range []string{"requires_openai_auth", "env_http_headers", "experimental_bearer_token", "auth",
		"aws"} {
		if v, ok := provider[other]; ok && v != false {
			return nil
		}
	}
	address, _ := provider["base_url"].(string)
	variable, _ := provider["env_key"].(string)
	if dialect, _ := provider["wire_api"].(string); address == "" || dialect != "" && dialect != "responses" {
		return nil
	}
	key := ""
	if variable != "" {
		key = get(variable)
	}
	return newRoute(name, address, key, provider)
}

func newRoute(name, address, key string, provider map[string]any) *route {
	u, err := host.Address(address)
	if err != nil {
		return nil
	}
	provider = maps.Clone(provider)
	for _, key := range []string{"base_url", "env_key", "env_key_instructions", "supports_websockets"} {
		delete(provider, key)
	}
	return &route{name, gateway.Upstream{URL: u, Key: key, Bearer: true}, provider}
}

// impatient are the settings of a provider on this machine.
func impatient() map[string]any {
	return map[string]any{"name": endpointName, "request_max_retries": 1, "stream_max_retries": 1,
		"stream_idle_timeout_ms": 20_000}
}

// gatewayName is OpenAI's name in Codex's configuration when it is reached through a gateway: the built-in name cannot
// be given another address.
const gatewayName = "plait-gateway"

// open opens the gateway of an attempt and points Codex at it. once says that the attempt has its own process, which
// finds the token in its environment; otherwise the token is set for one session of a server. The returned function
// closes the gateway.
func (s *setup) open(req agent.Request, once bool) (func(), error) {
	if s.route == nil {
		return func() {}, nil
	}
	g, err := gateway.Open(gateway.Config{Upstream: s.route.upstream, Traffic: req.Traffic, Secrets: req.Desk.Secrets})
	if err != nil {
		return nil, err
	}
	s.gateway = g
	provider := s.point(g.For(!req.OwnNetwork) + "/v1")
	if once {
		provider["env_key"] = keyVariable
		s.env = append(slices.DeleteFunc(s.env, func(kv string) bool { return strings.HasPrefix(kv, keyVariable+"=") }),
			keyVariable+"="+g.Token())
	} else {
		provider["experimental_bearer_token"] = g.Token()
	}
	return func() { g.Close() }, nil // everything it served has ended
}

// point points Codex at an address, and returns the settings of the provider there.
func (s *setup) point(address string) map[string]any {
	provider := maps.Clone(s.route.provider)
	provider["base_url"], provider["wire_api"] = address, "responses"
	maps.DeleteFunc(s.settings, func(key string, _ any) bool {
		top, _, _ := strings.Cut(key, ".")
		return top == "model_provider" || top == "model_providers"
	})
	s.settings["model_provider"], s.settings["model_providers"] = s.route.name, map[string]any{s.route.name: provider}
	return provider
}

// fits reports whether the session of a request can use the route: it has none yet, or began with
// the route's provider.
func (r *route) fits(home string, req agent.Request) bool {
	session := req.Session
	if session == "" && req.From != nil {
		session, home = req.From.Session, codexHome(req.From.Home)
	}
	if session == "" {
		return true
	}
	f, err := openRollout(findRollout(home, session))
	if err != nil {
		return true // Codex will report it
	}
	defer f.Close()
	var head struct {
		Payload struct {
			Provider string `json:"model_provider"`
		}
	}
	return json.Unmarshal(firstLine(f), &head) != nil || head.Payload.Provider == "" || head.Payload.Provider == r.name
}

// keyless returns the user's settings without the key of the route's provider, which Codex would
// require.
func (r *route) keyless(mine map[string]any) map[string]any {
	all, _ := mine["model_providers"].(map[string]any)
	p, ok := all[r.name].(map[string]any)
	if !ok {
		return mine
	}
	mine, all, p = maps.Clone(mine), maps.Clone(all), maps.Clone(p)
	delete(p, "env_key")
	all[r.name], mine["model_providers"] = p, all
	return mine
}

// here returns the addresses that bypass a proxy, including the gateway's.
func here(getenv func(string) string) string {
	return strings.TrimPrefix(cmp.Or(getenv("NO_PROXY"), getenv("no_proxy"))+",127.0.0.1", ",")
}
