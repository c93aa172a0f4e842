package codex

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/text"
)

// maxVendorText limits the part of a message that quotes Codex, in bytes.
const maxVendorText = 500

// verdicts are the meanings of the codes in the app-server's codexErrorInfo.
var verdicts = map[string]agent.Failure{
	"unauthorized":      {Kind: agent.Infra, Final: true, Machine: true, Message: "the model refused the login"},
	"missingKey":        {Kind: agent.Infra, Final: true, Machine: true, Message: "the model's key is missing"},
	"badRequest":        {Kind: agent.Infra, Final: true, Message: "the model rejected the request as invalid"},
	"modelNotFound":     {Kind: agent.Infra, Final: true, Message: "there is no such model"},
	"sandboxError":      {Kind: agent.Infra, Final: true, Machine: true, Message: "the sandbox could not be set up"},
	"startup":           {Kind: agent.Infra, Final: true, Machine: true, Message: "Codex could not start"},
	"noSession":         {Kind: agent.Infra, Message: "the session to continue is not there"},
	"twoWriters":        {Kind: agent.Infra, Message: "the session is being written by another process"},
	"sessionBroken":     {Kind: agent.Infra, Message: "the session could not be continued"},
	"incomplete":        {Kind: agent.Limit, Message: "the model's answer was truncated"},
	"serverOverloaded":  {Kind: agent.Infra, Message: "the model is overloaded"},
	"flexUnavailable":   {Kind: agent.Infra, Message: "the model's service tier is not available"},
	"policyUnavailable": {Kind: agent.Infra, Message: "the model's policy check is not available"},
	"server":            {Kind: agent.Infra, Message: "the model's server failed"},
	"connection":        {Kind: agent.Infra, Message: "the model could not be reached"},
	"stream":            {Kind: agent.Infra, Message: "the model's answer broke off"},
	"idle":              {Kind: agent.Infra, Message: "the model stayed silent"},
	"attempts":          {Kind: agent.Infra, Message: "the model failed too often"},
	"other":             {Kind: agent.Infra, Message: "the turn failed"},

	"usageLimitExceeded":    {Kind: agent.Limit, Message: "the usage limit of the account is reached"},
	"rateLimitExceeded":     {Kind: agent.Limit, Message: "the model's rate limit is reached"},
	"sessionBudgetExceeded": {Kind: agent.Limit, Message: "the session's budget is used up"},
	"contextWindowExceeded": {Kind: agent.Limit, Final: true, Message: "the session is full: it does not fit into " +
		"the model's context and cannot be continued"},

	"cyberPolicy": {Kind: agent.Refused, Message: "the model declined for reasons of its policy on " +
		"cyber security"},
	"misalignmentPolicyViolation": {Kind: agent.Refused, Message: "the model was stopped by a policy on its conduct"},
	"tooManyDenials":              {Kind: agent.Refused, Message: "too much of what the agent asked for was denied"},
	"inferenceHookDenied":         {Kind: agent.Refused, Message: "a hook denied the request to the model"},
}

// alias maps codexErrorInfo's other codes to the verdict they share.
var alias = map[string]string{
	"policyCapacityUnavailable":      "policyUnavailable",
	"internalServerError":            "server",
	"threadRollbackFailed":           "sessionBroken",
	"httpConnectionFailed":           "connection",
	"responseStreamConnectionFailed": "connection",
	"responseStreamDisconnected":     "stream",
	"responseTooManyFailedAttempts":  "attempts",
}

// phrases map parts of Codex's messages to verdicts. They count only where there is no code: the events of codex exec
// have nothing but a message, and in app-server "other" stands for all that have none. The first match counts.
var phrases = []phrase{
	{"ran out of room", "contextWindowExceeded"},
	{"context_length_exceeded", "contextWindowExceeded"},
	{"active writer", "twoWriters"},
	{"no rollout found", "noSession"},
	{"history lineage", "noSession"},
	{"missing environment variable", "missingKey"},
	{"usage limit", "usageLimitExceeded"},
	{"insufficient_quota", "usageLimitExceeded"},
	{"quota exceeded", "usageLimitExceeded"},
	{"rate limit", "rateLimitExceeded"},
	{"rate_limit", "rateLimitExceeded"},
	{"too many requests", "rateLimitExceeded"},
	{"not logged in", "unauthorized"},
	{"invalid_api_key", "unauthorized"},
	{"refresh token", "unauthorized"},
	{"token expired", "unauthorized"},
	{"model_not_found", "modelNotFound"},
	{"incomplete response", "incomplete"},
	{"idle timeout", "idle"},
	{"error sending request", "connection"},
	{"connection failed", "connection"},
	{"connection refused", "connection"},
	{"waiting for network", "connection"},
	{"stream disconnected", "stream"},
	{"stream closed", "stream"},
	{"high demand", "serverOverloaded"},
	{"overloaded", "serverOverloaded"},
	{"flagged", "cyberPolicy"},
	{"invalid_request_error", "badRequest"},
	{"invalid_json_schema", "badRequest"},
}

// A phrase is a part of a message, in lower case, and what it says.
type phrase struct{ has, verdict string }

// beginnings are how messages begin that say that Codex could not start.
var beginnings = []string{"Error loading config", "Model provider `", "Failed to read output schema",
	"Not inside a trusted directory", "error: "}

var httpStatus = regexp.MustCompile(`(?i)\b(?:unexpected status|last status:|http(?: error| status)?:?) (\d{3})\b`)

// classify returns the failure of a turn and its key in verdicts. info is codexErrorInfo:
// a text, an object with one key, or nothing; message is what Codex said.
func classify(info json.RawMessage, message string) (failure *agent.Failure, verdict string) {
	code, status := errorCode(info)
	verdict = cmp.Or(alias[code], code)
	switch verdict {
	case "", "other":
		verdict = byWords(status, message)
	case "server", "connection", "stream", "attempts", "serverOverloaded": // the status says more
		verdict = cmp.Or(byStatus(status, message), verdict)
	}
	if body := errorBody(message); body != "" {
		// Codex passes on the bare body of an HTTP response when a request was wrong.
		message = body
		if verdict == "other" {
			verdict = "badRequest"
		}
	}
	f, ok := verdicts[verdict]
	if !ok {
		verdict = "other"
		f = verdicts[verdict]
	}
	words := vendorText(message)
	f.Message = "Codex: " + f.Message
	if words != "" {
		f.Message += ": " + words
	}
	switch verdict {
	case "unauthorized":
		f.Message += "; log in with `codex login`, or set CODEX_API_KEY"
	case "missingKey":
		f.Message += "; set that variable where Plait runs, or log in with `codex login`"
	}
	if f.Kind == agent.Limit && !f.Final {
		f.ResetAt = resetAt(message, time.Now())
	}
	return &f, verdict
}

// errorBody returns the message in the body of an HTTP error, "" if text is not one.
func errorBody(text string) string {
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &body) != nil {
		return ""
	}
	return body.Error.Message
}

// byWords returns the verdict for an error without a code, by what its message says.
func byWords(status int, message string) string {
	if status == 0 {
		if m := httpStatus.FindStringSubmatch(message); m != nil {
			status, _ = strconv.Atoi(m[1])
		}
	}
	lower, said := strings.ToLower(message), ""
	if i := slices.IndexFunc(phrases, func(p phrase) bool { return strings.Contains(lower, p.has) }); i >= 0 {
		said = phrases[i].verdict
	}
	if said == "contextWindowExceeded" || said == "usageLimitExceeded" { // the status is that of many errors
		return said
	}
	return cmp.Or(byStatus(status, message), said, "other")
}

// byStatus returns the verdict for an HTTP status, "" for none.
func byStatus(status int, message string) string {
	switch {
	case status == 401 || status == 403:
		return "unauthorized"
	case status == 402:
		return "usageLimitExceeded"
	case status == 429:
		return "rateLimitExceeded"
	case status == 404 && strings.Contains(strings.ToLower(message), "model"):
		return "modelNotFound"
	case status == 408 || status == 409 || status == 425:
		return "server"
	case status >= 400 && status < 500:
		return "badRequest"
	case status >= 500:
		return "server"
	}
	return ""
}

// errorCode reads codexErrorInfo.
func errorCode(info json.RawMessage) (code string, status int) {
	if json.Unmarshal(info, &code) == nil {
		return code, 0
	}
	var one map[string]struct {
		Status int `json:"httpStatusCode"`
	}
	if json.Unmarshal(info, &one) != nil || len(one) != 1 {
		return "", 0
	}
	for code, detail := range one {
		return code, detail.Status
	}
	return "", 0
}

// execFailure returns the failure of a run of codex exec and its key in verdicts: message
// is what it said on stdout; if that is empty, its stderr decides.
func execFailure(stderr, message string, exit int) (failure *agent.Failure, verdict string) {
	if message != "" {
		return classify(nil, message)
	}
	line := firstError(stderr)
	if line == "" {
		return &agent.Failure{Kind: agent.Infra, Message: fmt.Sprintf("Codex ended with exit code %d and said nothing",
			exit)}, "other"
	}
	for _, start := range beginnings {
		if strings.HasPrefix(strings.TrimPrefix(line, "Error: "), start) {
			f := verdicts["startup"]
			f.Message = fmt.Sprintf("%s (exit code %d): %s; correct the agent's definition or Codex's settings",
				f.Message, exit, vendorText(line))
			return &f, "startup"
		}
	}
	failure, verdict = classify(nil, strings.TrimPrefix(line, "Error: "))
	if verdict == "other" {
		failure.Message = fmt.Sprintf("Codex ended with exit code %d: %s", exit, vendorText(line))
	}
	return failure, verdict
}

// sessionLost reports whether a session cannot be continued after a failure.
func sessionLost(verdict string) bool {
	return verdict == "contextWindowExceeded" || verdict == "noSession" || verdict == "sessionBroken"
}

// firstError returns the first line of stderr that says what went wrong, "" if there is none.
// Hints and backtraces do not count; a line of Codex's own log does if there is nothing better.
func firstError(stderr string) string {
	logged := ""
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "Reading additional input") ||
			strings.HasPrefix(line, "Reading prompt from stdin"):
		case strings.HasPrefix(line, "note: ") || strings.HasPrefix(line, "WARNING") ||
			strings.HasPrefix(line, "warning"):
		case strings.HasPrefix(line, "Stack backtrace") || strings.HasPrefix(line, "Location:"):
		case logPrefix.MatchString(line):
			if logged == "" {
				logged = logPrefix.ReplaceAllString(line, "")
			}
		default:
			return line
		}
	}
	return logged
}

var logPrefix = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\S+\s+(?:ERROR|WARN|INFO)\s+\S+:\s*`)

// vendorText returns what Codex said as one line of at most maxVendorText bytes.
func vendorText(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.Fields(s), " ")
	return strings.TrimRight(text.Clip(s, maxVendorText), ".")
}

var (
	relativeTime = sync.OnceValue(func() *regexp.Regexp { // large, and rarely needed
		return regexp.MustCompile(`(?i)(?:try again|retry|resets?)(?: again)? (?:in|after) ` +
			`((?:(?:\d+(?:\.\d+)?)\s*(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|` +
			`days?|d)\b[\s,]*(?:and\s+)?)+)`)
	})
	amount = regexp.MustCompile(`(?i)(\d+(?:\.\d+)?)\s*([a-z]+)`)
	// localTime is how Codex writes when a plan's limit ends: on this day, or on another one.
	localTime = regexp.MustCompile(`try again at (?:([A-Z][a-z]{2} \d{1,2})(?:st|nd|rd|th)(, \d{4}) )?(\d{1,2}:\d\d [AP]M)`)
	atTime    = regexp.MustCompile(`\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:\d\d)`)
)

// resetAt returns when text says that a limit ends, or the zero time.
func resetAt(text string, now time.Time) time.Time {
	if at := atTime.FindString(text); at != "" {
		at = strings.ToUpper(strings.Replace(at, " ", "T", 1))
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00"} {
			if t, err := time.Parse(layout, at); err == nil {
				return t.UTC()
			}
		}
	}
	if at := localTime.FindStringSubmatch(text); at != nil {
		day := cmp.Or(at[1]+at[2], now.Local().Format("Jan 2, 2006"))
		t, _ := time.ParseInLocation("Jan 2, 2006 3:04 PM", day+" "+at[3], time.Local) // zero if there is no such day
		return t.UTC()
	}
	m := relativeTime().FindStringSubmatch(text)
	if m == nil {
		return time.Time{}
	}
	var seconds float64
	for _, part := range amount.FindAllStringSubmatch(m[1], -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			return time.Time{}
		}
		seconds += n * unitSeconds(strings.ToLower(part[2]))
	}
	if seconds <= 0 || seconds > 90*24*3600 {
		return time.Time{}
	}
	return now.UTC().Add(time.Duration(seconds * float64(time.Second)))
}

func unitSeconds(unit string) float64 {
	switch {
	case unit == "ms" || strings.HasPrefix(unit, "milli"):
		return 0.001
	case unit[0] == 'm':
		return 60
	case unit[0] == 'h':
		return 3600
	case unit[0] == 'd':
		return 24 * 3600
	}
	return 1
}
