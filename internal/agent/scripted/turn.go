package scripted

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An ending is how a reply ends.
type ending int

const (
	whole  ending = iota // all events, then the end of the body
	cut                  // all events, then the connection is closed
	silent               // the headers, then nothing
)

// A reply is what the server sends for one request.
type reply struct {
	scenario   string
	turn, step int // places in the scenario, from 1; 0: none matched
	status     int
	header     map[string]any // of an error
	body       string         // of an error
	events     []event        // when status is 200
	end        ending
	slow       time.Duration
}

// override matches a prompt that asks for a scenario other than the configured one.
var override = regexp.MustCompile(`SCENARIO=([a-z0-9][a-z0-9-]*)`)

// respond returns the reply to a request. It depends only on its arguments. fails reports whether a failure
// with a limited number of times happens again.
func respond(sc *Scenario, r *Request, fails func(key string, times int) bool) reply {
	if r.aside {
		s := r.stream("aside")
		s.begin(usual)
		said := "Scripted"
		if r.Schema != nil {
			v, _ := instance(r.Schema, nil, said) // the agent does without it if it does not fit
			said = string(encode(v))
		}
		s.message(said)
		s.completed(usual)
		return reply{scenario: sc.name, status: http.StatusOK, events: s.made()}
	}
	if m := override.FindStringSubmatch(r.Prompt()); m != nil {
		if other, err := Load(m[1]); err == nil {
			sc = other
		}
	}
	at := slices.IndexFunc(sc.Turns, func(t turn) bool { return t.When.matches(r) })
	if at < 0 {
		return failure(sc.name, http.StatusBadRequest, fmt.Sprintf("scenario %s has no turn for this prompt", sc.name))
	}
	t := sc.Turns[at]
	n := t.stepAfter(len(r.Outputs))
	st := t.Steps[n]
	key := fmt.Sprintf("%s\x00%s\x00%d\x00%d", r.Thread, sc.name, at, n)
	out := reply{scenario: sc.name, turn: at + 1, step: n + 1, status: http.StatusOK, slow: st.Slow}
	id := fmt.Sprintf("resp_%d_%d", len(r.Prompts), n+1)
	s := r.stream(id)
	var err error
	switch {
	case r.running.ask(s):
	case st.Fail != nil && fails(key, st.Fail.Times):
		out.status, out.header, out.body = st.Fail.Status, st.Fail.Headers, st.Fail.Body
		if out.body == "" {
			out.body = errorBody(st.Fail.Status, "the scenario "+sc.name+" wants this error")
		}
	case st.Silent:
		out.end = silent
	case st.Broken != nil && fails(key, st.Broken.Times):
		s.begin(st.Usage)
		s.failed(st.Broken.Code, st.Broken.Message)
	case st.Cut.on && fails(key, st.Cut.Times):
		s.begin(st.Usage)
		var before int
		before, err = write(s, id, st.Items, r)
		s.cutTo(before + (len(s.made())-before+1)/2)
		out.end = cut
	default:
		s.begin(st.Usage)
		_, err = write(s, id, st.Items, r)
		if st.Incomplete != "" {
			s.incomplete(st.Incomplete, st.Usage)
		} else {
			s.completed(st.Usage)
		}
	}
	if err != nil {
		out.status, out.body = http.StatusBadRequest, errorBody(http.StatusBadRequest, err.Error())
		return out
	}
	out.events = s.made()
	return out
}

// failure returns the reply to an invalid request.
func failure(scenario string, status int, message string) reply {
	return reply{scenario: scenario, status: status, body: errorBody(status, message)}
}

func errorBody(status int, message string) string {
	return string(encode(
		object{"error": object{"type": strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "_"),
			"message": message}}))
}

// matches reports whether r meets all conditions of w.
func (w when) matches(r *Request) bool {
	for _, text := range w.Contains {
		if !strings.Contains(r.Prompt(), text) {
			return false
		}
	}
	for _, text := range w.Context {
		if !slices.ContainsFunc(r.Context, func(c string) bool { return strings.Contains(c, text) }) {
			return false
		}
	}
	if w.Schema != nil && *w.Schema != (r.Schema != nil) {
		return false
	}
	return w.Nth == 0 || w.Nth == len(r.Prompts)
}

// stepAfter returns the index of the step that follows a number of tool outputs: the first whose calls do not
// all have outputs. A step without calls is the last.
func (t turn) stepAfter(outputs int) int {
	for i, st := range t.Steps {
		calls := st.calls()
		if calls == 0 || outputs < calls {
			return i
		}
		outputs -= calls
	}
	return len(t.Steps) - 1
}

// calls returns how many tool outputs a step leads to, 0 if the turn ends with it.
func (st step) calls() int {
	if st.Silent || st.Incomplete != "" {
		return 0
	}
	if times, fails := st.failure(); fails && times == 0 {
		return 0
	}
	n := 0
	for _, it := range st.Items {
		if it.Run != nil || it.Wait > 0 || it.Patch != nil || it.Call != nil {
			n++
		}
	}
	return n
}

// A dialect collects the events of one response, in the form of one API.
type dialect interface {
	begin(usage)
	message(text string)
	reasoning(text string)
	call(namespace, name string, arguments any, callID string) // arguments are an object, or of apply_patch a text
	completed(usage)
	incomplete(reason string, u usage)
	failed(code, message string)

	made() []event
	cutTo(events int)
}

// stream returns an empty response to a request, with its id.
func (r *Request) stream(id string) dialect {
	switch r.api {
	case messagesAPI:
		return &messageStream{id: "msg_" + id, request: r}
	case geminiAPI:
		return &geminiStream{id: id, request: r}
	case chatAPI:
		return &chatStream{id: "chatcmpl-" + strings.TrimPrefix(id, "resp_"), request: r}
	}
	return &stream{id: id}
}

// write streams items into the response id, and returns the index of the last item's first event. The error says which
// answer cannot be made.
func write(s dialect, id string, items []item, r *Request) (last int, err error) {
	for i, it := range items {
		last = len(s.made())
		callID := fmt.Sprintf("call_%s_%d", strings.TrimPrefix(id, "resp_"), i+1)
		switch {
		case it.Reason != nil:
			s.reasoning(*it.Reason)
		case it.Say != nil:
			s.message(quote(*it.Say, r))
		case it.Run != nil:
			s.call("", "exec_command", quoteAll(it.Run.arguments(), r), callID)
		case it.Wait > 0:
			session := 0
			if it.Wait <= len(r.sessions) {
				session = r.sessions[it.Wait-1]
			}
			waitFor(s, session, callID)
		case it.Patch != nil:
			s.call("", "apply_patch", quote(*it.Patch, r), callID)
		case it.Call != nil:
			s.call(it.Call.Namespace, it.Call.Name, quoteAll(it.Call.Arguments, r), callID)
		case it.Answer != nil:
			if err := r.answer(s, *it.Answer, callID); err != nil {
				return 0, err
			}
		}
	}
	return last, nil
}

var quotes = regexp.MustCompile(`\{\{(?:output ([0-9]{1,6})|prompt (.+?))\}\}`)

// quote replaces {{output N}} in a text by the outputs of tools, and {{prompt REGEXP}} by the match
// in the prompt: its last group, or the whole match if the expression has no groups. Replacements
// are not expanded again.
func quote(text string, r *Request) string {
	return quotes.ReplaceAllStringFunc(text, func(m string) string {
		found := quotes.FindStringSubmatch(m)
		if found[2] != "" {
			re, err := regexp.Compile(found[2])
			if err != nil {
				return "(" + err.Error() + ")"
			}
			if in := re.FindStringSubmatch(r.Prompt()); in != nil {
				return in[len(in)-1]
			}
			return "(the prompt has no such text)"
		}
		n, err := strconv.Atoi(found[1])
		if err != nil || n < 1 || n > len(r.Outputs) {
			return "(there is no such output)"
		}
		return r.Outputs[n-1]
	})
}

// quoteAll returns a copy of a value with the quotes in all its texts replaced.
func quoteAll(v any, r *Request) any {
	switch v := v.(type) {
	case string:
		return quote(v, r)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = quoteAll(v[i], r)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for k := range v {
			m[k] = quoteAll(v[k], r)
		}
		return m
	}
	return v
}
