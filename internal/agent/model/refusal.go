package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/sys/text"
)

// A serverError says why the model gave no answer.
type serverError struct {
	status int // 0: there was no response
	code   string
	text   string
	said   string        // all that the server says itself, one text a line: see [words]
	page   bool          // it is a web page
	after  time.Duration // when to retry, if the server says so
}

func (e *serverError) Error() string { return "the model's server " + e.text }

// retryable reports whether a retry may help.
func (e *serverError) retryable() bool {
	if e.code == gateway.Refused || e.code == gateway.Untrusted {
		return false // there is no server, or it may be another one
	}
	empty := e.status == http.StatusOK && e.said == "" && !e.page
	passing := e.status == 0 || empty || e.status == http.StatusRequestTimeout ||
		e.status == http.StatusTooManyRequests || e.status >= 500 && e.status != http.StatusNotImplemented &&
		e.status != http.StatusHTTPVersionNotSupported
	return passing && !e.contextExceeded()
}

// ours reports whether the gateway refused the request, or found no server.
func (e *serverError) ours() bool {
	return e.code == "plait_gateway" || e.code == gateway.Refused || e.code == gateway.Untrusted
}

// tooLong is the code of an error that says so itself.
const tooLong = "context_length_exceeded"

// rarely compiles an expression when it is first used: those that count are large, and most runs of the program meet no
// refusal.
func rarely(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// overflow are the words in which servers say that a conversation is too long.
var overflow = rarely("(?i)" + strings.Join([]string{
	`context.?(length|window|size|limit|overflow)`, `maximum context`, // OpenAI, llama.cpp, LM Studio, Ollama, SGLang
	`(prompt|input|messages?|conversation) (is |are )?too (long|large)`, // Anthropic, Bedrock, Fireworks
	`too many (input |total )?tokens`,                                   // Cohere
	`too large for .{0,40}model`,                                        // Mistral, GitHub Models
	`tokens?.{0,80} exceeds? (the )?(max|limit)`,                        // Gemini, Copilot, Doubao
	`maximum (prompt|input|allowed input) length`,                       // xAI, Poolside
	`model token limit`, `prompt exceeds max length`,                    // Moonshot, Z.ai
	`reduce the length`,                                // Groq, Cerebras
	`max_new_tokens. must be`, `range of input length`, // TGI and Together, DashScope
}, "|"))

var (
	// overflowOnce are the words of a server whose limit for a minute is less than the request needs: waiting is no use.
	overflowOnce = regexp.MustCompile(`(?i)request too large|tokens must be reduced`)
	// money are the words of servers that do not answer 402 when they want to be paid.
	money = rarely(`(?i)credit balance|insufficient.(balance|credit|fund|quota)|arrear|out of credit`)
	// moderation are the words of servers that refuse what is said in a request: OpenRouter, xAI, Azure, DashScope.
	moderation = rarely(`(?i)moderat|content.?(filter|policy|safety|management|violat|exists.risk)|` +
		`usage (guidelines|polic)|safety.?check|(input|prompt|content).{0,20} flagged|inappropriate content|data_inspection`)
)

// contextExceeded reports whether the conversation does not fit into the model's context, or into a request.
func (e *serverError) contextExceeded() bool {
	switch said := e.code + " " + e.said; e.status {
	case http.StatusRequestEntityTooLarge:
		return true
	case http.StatusTooManyRequests: // it is larger than what is allowed in a minute
		return overflowOnce.MatchString(said)
	case 0, http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusInternalServerError:
		return e.code == tooLong || overflow().MatchString(said)
	}
	return false
}

// unpaid reports whether the server wants money.
func (e *serverError) unpaid() bool {
	return e.status == http.StatusPaymentRequired || e.rejected() && money().MatchString(e.said)
}

// moderated reports whether the server refuses what is said in the request.
func (e *serverError) moderated() bool {
	return e.rejected() && !e.contextExceeded() && moderation().MatchString(e.said)
}

func (e *serverError) rejected() bool {
	return e.status == http.StatusBadRequest || e.status == http.StatusForbidden
}

// forGood reports whether the server refuses the conversation, or anything else that is in the request, now and
// later. Other statuses are about its address, the key or the load.
func (e *serverError) forGood() bool {
	switch e.status {
	case http.StatusForbidden:
		return e.moderated()
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusProxyAuthRequired:
		return false
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return true
	}
	return e.contextExceeded() || e.status >= 400 && e.status < 500 && !e.retryable() && !e.unpaid() && !e.ours()
}

// unfit reports whether the server may accept the same conversation in a different request.
func (e *serverError) unfit() bool {
	maybe := e.status == http.StatusNotFound || e.status == http.StatusInternalServerError
	return (maybe || e.forGood()) && (!e.contextExceeded() || answerMost(e.said) > 0) && !e.moderated() && !e.ours()
}

// refusedError is the form of an error, alone or in a stream.
type refusedError struct {
	Error json.RawMessage `json:"error"`
}

// failed reports whether there is an error. Some servers have the field in each response.
func (e refusedError) failed() bool {
	switch string(e.Error) {
	case "", "null", "false", `""`, "{}":
		return false
	}
	return true
}

var (
	// telling are the fields of an error in which servers say what is wrong. Others can repeat the request.
	telling = regexp.MustCompile(`(?i)(errors?|message|msg|code|type|status|param|details?|loc|reason|metadata|raw|` +
		`description)$`)
	// repeated is what a message can repeat of a request, as vLLM's does.
	repeated = regexp.MustCompile(`(?:'input': |input_value=).*`)
	// webPage matches a page, with its title.
	webPage = regexp.MustCompile(`(?is)^[\s\x{FEFF}]*<(?:!doctype|!--|html|head|body)` +
		`(?:.*?<title[^>]*>\s*([^<]*?)\s*</title>)?`)
)

// words adds the texts to said that a server says itself: only what is said in them counts, since the rest of an error
// can have the words of the conversation.
func words(of any, said *strings.Builder) {
	switch of := of.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(of)) {
			if telling.MatchString(name) {
				words(of[name], said)
			}
		}
	case []any:
		for _, one := range of {
			words(one, said)
		}
	case string:
		var inner map[string]any // of another server
		if json.Unmarshal([]byte(of), &inner) == nil {
			words(inner, said)
			return
		}
		fmt.Fprintf(said, "\"%s\"\n", repeated.ReplaceAllString(of, ""))
	}
}

// serverErrorOf parses an error of a server in any of the known forms.
func serverErrorOf(status int, body []byte) *serverError {
	e := &serverError{status: status}
	var form any
	if json.Unmarshal(body, &form) != nil {
		form = string(bytes.TrimSpace(body))
	}
	title := webPage.FindSubmatch(body)
	if e.page = title != nil; !e.page && form != "" {
		var said strings.Builder
		words(form, &said)
		e.said = text.Clip(said.String(), 4000)
	}
	var outer refusedError
	var inner struct {
		Type    string `json:"type"`
		Code    any    `json:"code"`
		Message string `json:"message"`
	}
	var told string
	switch {
	case e.page:
		told = "a page instead of an answer"
		if len(title[1]) > 0 {
			told += fmt.Sprintf(", %.200q", title[1])
		}
	case json.Unmarshal(body, &outer) != nil || len(outer.Error) == 0:
		told = string(body)
	case json.Unmarshal(outer.Error, &inner) == nil:
		told = inner.Message
	case json.Unmarshal(outer.Error, &told) != nil:
		told = string(outer.Error)
	}
	e.code = inner.Type
	if code, ok := inner.Code.(string); ok && code != "" {
		e.code = code
	}
	e.text = "says: " + text.Clip(told, 2000)
	if of, gateways := strings.CutPrefix(told, "the model's server "); gateways && inner.Type == "plait_gateway" {
		e.text = of // about the server, which did not respond
	} else if status != 0 {
		e.text = fmt.Sprintf("answers %d %s: %s", status, http.StatusText(status), text.Clip(told, 2000))
	}
	return e
}

// refusal returns the error of an unsuccessful response.
func refusal(res *http.Response, body []byte) error {
	e := serverErrorOf(res.StatusCode, body)
	after := res.Header.Get("Retry-After")
	if secs, err := strconv.Atoi(after); err == nil && secs >= 0 {
		e.after = time.Duration(secs) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		e.after = max(0, time.Until(at))
	}
	return e
}

// pause returns how long to wait before a retry, and false if there should be none.
func (e *serverError) pause(try int) (time.Duration, bool) {
	if !e.retryable() || try >= maxTries || e.after > maxPause {
		return 0, false
	}
	return max(e.after, 250*time.Millisecond<<(2*try-2)), true
}
