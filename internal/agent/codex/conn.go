package codex

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/sys/jsonrpc"
)

// A message is one line of app-server's protocol: JSON-RPC 2.0 without its
// "jsonrpc" field, in both directions. Its Line is that of the raw log of the attempt
// it belongs to, see agent.Event.Line.
type message = jsonrpc.Message

// A target is the part of a notification or request that says where it belongs.
type target struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	Thread   struct {
		ID string `json:"id"`
	} `json:"thread"`
}

// sessionOf returns the session a message belongs to, or "".
func sessionOf(m message) string {
	var w target
	if json.Unmarshal(m.Params, &w) != nil {
		return ""
	}
	if w.ThreadID != "" {
		return w.ThreadID
	}
	return w.Thread.ID
}

// plainSettings are the settings that Plait itself sets, which contain no secrets.
var plainSettings = []string{
	"approval_policy", "default_permissions", "model", "model_provider", "model_reasoning_effort",
	"model_reasoning_summary", "model_verbosity", "permissions", "projects",
}

// redacted returns the line of m for the log: without the values of settings from the definition,
// which can contain keys.
func redacted(m message, line []byte) []byte {
	var params, settings map[string]json.RawMessage
	if !strings.HasPrefix(m.Method, "thread/") || json.Unmarshal(m.Params, &params) != nil ||
		json.Unmarshal(params["config"], &settings) != nil {
		return line
	}
	for key := range settings {
		if !slices.Contains(plainSettings, key) {
			settings[key] = json.RawMessage(`"…"`)
		}
	}
	params["config"], _ = json.Marshal(settings)
	m.Params, _ = json.Marshal(params)
	line, _ = json.Marshal(m)
	return line
}

// Sent logs a message to Codex.
func (t *turn) Sent(m message, line []byte) { t.logRequest("out", redacted(m, line)) }

// A requestLine is one line of requests.jsonl.
type requestLine struct {
	TS      int64           `json:"ts"`  // Unix ms
	Dir     string          `json:"dir"` // out: to Codex, in: from Codex
	Message json.RawMessage `json:"message"`
}

// logRequest logs a request or an answer. A nil turn has no log.
func (t *turn) logRequest(dir string, line []byte) {
	if t == nil || t.req.Desk.Requests == nil || !json.Valid(line) {
		return
	}
	data, err := json.Marshal(requestLine{time.Now().UnixMilli(), dir, line})
	if err != nil {
		return
	}
	t.writeLog(t.req.Desk.Requests, append(data, '\n'))
}
