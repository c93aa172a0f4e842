package codex

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/jsonrpc"
)

// An execOutput is what codex exec has said so far.
type execOutput struct {
	thread  string              // the session, once named
	answer  string              // the last message
	done    bool                // turn.completed was received
	ended   bool                // turn.failed was received
	message string              // of the last error that may be why it failed
	usage   *rolloutUsage       // of the session, in turn.completed
	open    map[string]execItem // started and not completed, by id
	order   []string            // ids of open, in order of arrival
	sizes   map[string]int      // bytes of a command's output already sent, by id
	lines   int                 // received so far
	warned  map[string]bool
	// How often each text was said since the last command. If an answer breaks off,
	// Codex repeats the request, and with it texts that are not new.
	since, echo map[string]int
}

// An execLine is one line of codex exec --json.
type execLine struct {
	Type   string          `json:"type"`
	Thread string          `json:"thread_id"`
	Item   json.RawMessage `json:"item"`
	Usage  *rolloutUsage   `json:"usage"`
	Text   string          `json:"message"`
	Error  struct {
		Message string `json:"message"`
	} `json:"error"`
}

// An execItem is one thing in the turn. Fields that do not belong to its type
// are empty.
type execItem struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Status  string `json:"status"`
	Text    string `json:"text"`
	Message string `json:"message"`

	Command string `json:"command"`
	Output  string `json:"aggregated_output"`
	Exit    *int   `json:"exit_code"`

	Changes []struct {
		Path string `json:"path"`
		Kind string `json:"kind"`
		Diff string `json:"diff"`
	} `json:"changes"`

	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Result    json.RawMessage `json:"result"`
	Error     json.RawMessage `json:"error"`
	Query     string          `json:"query"`
	Prompt    string          `json:"prompt"`
	Items     json.RawMessage `json:"items"`
}

// line handles one line of stdout. Lines it does not understand are in the raw log only.
func (r *execRun) line(line []byte, cut bool) error {
	defer r.watchdog.Pause()() // the time it takes to handle a line is not Codex's
	defer func() { r.watchdog.SetTools(r.out.running()) }()
	r.out.lines++
	line = bytes.TrimSpace(line)
	var l execLine
	if cut || len(line) == 0 || line[0] != '{' || jsonrpc.Decode(line, &l) != nil {
		return nil
	}
	s := &r.out
	switch l.Type {
	case "thread.started":
		if s.thread == "" {
			s.thread = l.Thread
			r.startup.Stop()
			if r.req.Opened != nil {
				r.req.Opened(s.thread)
			}
		}
	case "turn.completed":
		s.done, s.usage = true, l.Usage
	case "turn.failed":
		again := l.Error.Message == s.message
		s.ended = true
		if l.Error.Message != "" {
			s.message = l.Error.Message
		}
		if !again {
			return r.send(agent.Event{Kind: agent.EventError, Text: l.Error.Message})
		}
	case "error":
		if strings.HasPrefix(l.Text, "Reconnecting") {
			s.echo, s.since = s.since, nil
			return r.send(agent.Event{Kind: agent.EventError, Text: l.Text, WillRetry: true})
		}
		s.message = l.Text
		return r.send(agent.Event{Kind: agent.EventError, Text: l.Text})
	case "item.started", "item.updated", "item.completed":
		var it execItem
		if jsonrpc.Decode(l.Item, &it) == nil {
			return r.item(it, strings.TrimPrefix(l.Type, "item."))
		}
	}
	return nil
}

// item handles one item.
func (r *execRun) item(it execItem, phase string) error {
	s := &r.out
	if phase == "completed" {
		s.finish(it.ID)
	} else if it.runs() {
		s.start(it)
	}
	switch it.Type {
	case "agent_message", "reasoning":
		if phase == "completed" && s.isEcho(it) {
			return nil
		}
		if it.Type == "agent_message" && phase == "completed" {
			s.answer = it.Text
		}
	case "error":
		if s.warned[it.Message] {
			return nil
		}
		if s.warned == nil {
			s.warned = map[string]bool{}
		}
		s.warned[it.Message] = true
	default:
		s.since, s.echo = nil, nil
	}
	ev, ok := it.event(phase)
	if !ok {
		return nil
	}
	if it.Type == "command_execution" && phase == "updated" {
		if s.sizes == nil {
			s.sizes = map[string]int{}
		}
		told := min(s.sizes[it.ID], len(it.Output))
		ev.Output = tail(it.Output[told:])
		s.sizes[it.ID] = len(it.Output)
	}
	if ev.Kind == agent.EventTool {
		ev.Line = s.lines
	}
	return r.send(ev)
}

// event returns the event for an item, and whether there is one.
func (it execItem) event(phase string) (agent.Event, bool) {
	ev := agent.Event{ID: it.ID, Phase: phase}
	if phase == "completed" && (it.Status == "failed" || it.Status == "declined") {
		ev.Phase = it.Status
	}
	switch it.Type {
	case "agent_message":
		ev.Kind, ev.Text = agent.EventMessage, it.Text
	case "reasoning":
		ev.Kind, ev.Text = agent.EventThought, it.Text
	case "command_execution":
		ev.Kind, ev.Text, ev.Exit, ev.Output = agent.EventCommand, it.Command, exitCode(it.Exit), tail(it.Output)
	case "file_change":
		ev.Kind = agent.EventFile
		var names []string
		for _, c := range it.Changes {
			ev.Files = append(ev.Files, agent.File{Path: c.Path, Change: c.Kind, Diff: c.Diff})
			names = append(names, c.Path)
		}
		ev.Text = strings.Join(names, ", ")
	case "mcp_tool_call", "web_search", "collab_tool_call":
		ev.Kind, ev.Text, ev.Detail = agent.EventTool, it.name(), it.Arguments
		if isSet(it.Result) {
			ev.Output = tail(string(it.Result))
		}
		if isSet(it.Error) {
			ev.Output = tail(string(it.Error))
		}
	case "todo_list":
		ev.Kind, ev.Detail = agent.EventPlan, it.Items
		ev.Text = it.plan()
	case "error":
		// An error that breaks the turn comes with turn.failed: this is a warning.
		ev.Kind, ev.Text, ev.Phase = agent.EventProgress, "Codex warns: "+it.Message, ""
	default:
		return ev, false
	}
	return ev, true
}

// name returns the name of what was called.
func (it execItem) name() string {
	switch {
	case it.Type == "web_search":
		return "web search: " + it.Query
	case it.Server != "":
		return it.Server + "/" + it.Tool
	case it.Prompt != "":
		return it.Tool + ": " + it.Prompt
	}
	return it.Tool
}

// plan returns a plan's entries, one per line.
func (it execItem) plan() string {
	var entries []struct {
		Text      string `json:"text"`
		Completed bool   `json:"completed"`
	}
	jsonrpc.Decode(it.Items, &entries)
	var lines []string
	for _, e := range entries {
		mark := "[ ] "
		if e.Completed {
			mark = "[x] "
		}
		lines = append(lines, mark+e.Text)
	}
	return strings.Join(lines, "\n")
}

// runs reports whether an item may take long between start and end, so that silence
// does not count.
func (it execItem) runs() bool {
	switch it.Type {
	case "command_execution", "mcp_tool_call", "web_search", "collab_tool_call", "file_change":
		return true
	}
	return false
}

func (s *execOutput) running() int { return len(s.open) }

func (s *execOutput) start(it execItem) {
	if s.open == nil {
		s.open = map[string]execItem{}
	}
	if _, known := s.open[it.ID]; !known {
		s.order = append(s.order, it.ID)
	}
	s.open[it.ID] = it
}

func (s *execOutput) finish(id string) {
	delete(s.open, id)
	delete(s.sizes, id)
}

// isEcho reports whether a text repeats what was said before the answer broke off.
func (s *execOutput) isEcho(it execItem) bool {
	key := it.Type + "\x00" + it.Text
	if s.since == nil {
		s.since = map[string]int{}
	}
	s.since[key]++
	if s.echo[key] > 0 {
		s.echo[key]--
		return true
	}
	return false
}

// closeItems sends the end of each item that was started and never completed.
func (r *execRun) closeItems() {
	for _, id := range r.out.order {
		it, ok := r.out.open[id]
		if !ok {
			continue
		}
		delete(r.out.open, id)
		if ev, ok := it.event("failed"); ok && r.send(ev) != nil {
			return
		}
	}
}
