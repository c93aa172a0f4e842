package codex

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/plait-run/plait/internal/agent"
)

func TestClassify(t *testing.T) {
	tests := []struct {
		name, info, message string
		kind                string
		final               bool
		says                string
	}{
		{"unauthorized", `"unauthorized"`, "nope", agent.Infra, true,
			"nope; log in with `codex login`, or set CODEX_API_KEY"},
		{"401 by status", `{"responseStreamConnectionFailed":{"httpStatusCode":401}}`, "x", agent.Infra, true,
			"codex login"},
		{"401 by text", ``, "unexpected status 401 Unauthorized: wrong key, url: http://x", agent.Infra, true,
			"codex login"},
		{"no key", ``, "Missing environment variable: `NOPE`.", agent.Infra, true, "`NOPE`; set that variable"},
		{"usage", `"usageLimitExceeded"`, "You've hit your usage limit.", agent.Limit, false, "usage limit"},
		{"usage by text", `"other"`, "You've hit your usage limit. Upgrade to Pro", agent.Limit, false, "usage limit"},
		{"rate", `"rateLimitExceeded"`, "slow down", agent.Limit, false, "slow down"},
		{"429 in an object", `{"responseTooManyFailedAttempts":{"httpStatusCode":429}}`, "x", agent.Limit, false,
			"rate limit"},
		{"429 by text", ``, "exceeded retry limit, last status: 429 Too Many Requests", agent.Limit, false,
			"rate limit"},
		{"budget", `"sessionBudgetExceeded"`, "", agent.Limit, false, "budget"},
		{"context", `"contextWindowExceeded"`, "ran out", agent.Limit, true, "session is full"},
		{"context by text", ``, "Codex ran out of room in the model's context window.", agent.Limit, true,
			"session is full"},
		{"bad request", `"badRequest"`, "x", agent.Infra, true, "rejected the request"},
		{"bad request by body", ``, `{"error":{"message":"no tool","type":"x"}}`, agent.Infra, true, "invalid: no tool"},
		{"model", `"modelNotFound"`, "x", agent.Infra, true, "no such model"},
		{"sandbox", `"sandboxError"`, "x", agent.Infra, true, "sandbox"},
		{"cyber", `"cyberPolicy"`, "x", agent.Refused, false, "declined"},
		{"misalignment", `"misalignmentPolicyViolation"`, "x", agent.Refused, false, "policy"},
		{"denials", `"tooManyDenials"`, "x", agent.Refused, false, "denied"},
		{"hook", `"inferenceHookDenied"`, "x", agent.Refused, false, "hook"},
		{"overloaded", `"serverOverloaded"`, "x", agent.Infra, false, "overloaded"},
		{"server", `"internalServerError"`, "x", agent.Infra, false, "server failed"},
		{"503", `{"httpConnectionFailed":{"httpStatusCode":503}}`, "x", agent.Infra, false, "server failed"},
		{"stream", `{"responseStreamDisconnected":{"httpStatusCode":null}}`, "x", agent.Infra, false, "broke off"},
		{"refused", `{"httpConnectionFailed":{}}`, "x", agent.Infra, false, "could not be reached"},
		{"idle", ``, "stream disconnected before completion: idle timeout waiting for SSE", agent.Infra, false,
			"silent"},
		{"attempts", `{"responseTooManyFailedAttempts":{}}`, "x", agent.Infra, false, "too often"},
		{"flex", `"flexUnavailable"`, "x", agent.Infra, false, "tier"},
		{"capacity", `"policyCapacityUnavailable"`, "x", agent.Infra, false, "policy check"},
		{"rollback", `"threadRollbackFailed"`, "x", agent.Infra, false, "session"},
		{"a code, whatever the words", `{"responseStreamDisconnected":{}}`, "usage limit: last status: 429", agent.Infra,
			false, "broke off"},
		{"a code with a status, whatever the words", `{"httpConnectionFailed":{"httpStatusCode":503}}`, "usage limit",
			agent.Infra, false, "server failed"},
		{"other", `"other"`, "odd", agent.Infra, false, "turn failed: odd"},
		{"unknown", `"somethingNew"`, "odd", agent.Infra, false, "turn failed: odd"},
		{"no words", ``, "", agent.Infra, false, "turn failed"},
		{"not JSON", `{`, "x", agent.Infra, false, "turn failed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, _ := classify(json.RawMessage(tt.info), tt.message)
			if f.Kind != tt.kind || f.Final != tt.final || !strings.Contains(f.Message, tt.says) ||
				!strings.HasPrefix(f.Message, "Codex: ") {
				t.Errorf("got %+v", f)
			}
		})
	}
}

func TestVendorWords(t *testing.T) {
	f, _ := classify(nil, "first\n\x1b[31msecond "+strings.Repeat("ä", 2000))
	if len(f.Message) > maxVendorText+100 || strings.ContainsAny(f.Message, "\n\x1b") || !utf8.ValidString(f.Message) {
		t.Errorf("got %q", f.Message)
	}
}

func TestResetAt(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	tests := []struct {
		text string
		want time.Duration // after now; zero: not known
	}{
		{"Please try again in 3m 20s.", 200 * time.Second},
		{"try again in 1s", time.Second},
		{"try again in 1.5s", 1500 * time.Millisecond},
		{"try again in 250ms", 250 * time.Millisecond},
		{"Try again in 2 days, 3 hours and 4 minutes", 51*time.Hour + 4*time.Minute},
		{"retry after 5 minutes", 5 * time.Minute},
		{"resets in 1 hour", time.Hour},
		{"your limit ends at 2026-05-04T05:02:01+01:00, come back", time.Hour},
		{"your limit ends at 2026-05-04 04:02Z", 59*time.Minute + 59*time.Second},
		{"try again later", 0},
		{"try again in 9 moons", 0},
		{"try again in 99999999999 days", 0},
		{"2026-99-99T99:99:99Z", 0},
		{"", 0},
	}
	for _, tt := range tests {
		got := resetAt(tt.text, now)
		if tt.want == 0 && !got.IsZero() || tt.want != 0 && !got.Equal(now.Add(tt.want)) {
			t.Errorf("%q: got %v, want %v after %v", tt.text, got, tt.want, now)
		}
	}
}

// TestResetAtLocal reads the times that Codex writes in the zone of its host.
func TestResetAtLocal(t *testing.T) {
	now := time.Date(2026, 5, 4, 5, 2, 1, 0, time.Local)
	for text, want := range map[string]time.Time{
		"Upgrade to Pro or try again at 3:05 PM.": time.Date(2026, 5, 4, 15, 5, 0, 0, time.Local),
		"or try again at May 6th, 2026 12:05 AM.": time.Date(2026, 5, 6, 0, 5, 0, 0, time.Local),
		"try again at Feb 30th, 2026 3:05 PM":     {},
		"try again at 25:05 PM":                   {},
	} {
		if got := resetAt(text, now); !got.Equal(want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestExecFailure(t *testing.T) {
	tests := []struct {
		name, stderr, message string
		exit                  int
		kind                  string
		final                 bool
		says                  string
		lost                  bool
	}{
		{"message wins", "Error: x", "unexpected status 401 Unauthorized", 1, agent.Infra, true, "login", false},
		{"unknown session", "Error: thread/resume: thread/resume failed: no rollout found for thread id 01 " +
			"(code -32600)\n", "", 1, agent.Infra, false, "not there", true},
		{"lost parent", "Error: thread/resume: thread/resume failed: invalid paginated history lineage for 01: " +
			"missing source rollout (code -32600)", "", 1, agent.Infra, false, "not there", true},
		{"provider", "Error: Model provider `nope` not found\n", "", 1, agent.Infra, true, "Model provider", false},
		{"settings", "Error loading config.toml: unknown variant `bogus`\nin `approval_policy`\n", "", 1, agent.Infra,
			true, "could not start (exit code 1): Error loading config.toml", false},
		{"flag", "error: unexpected argument '--bogus' found\n\nUsage: codex exec", "", 2, agent.Infra, true, "--bogus",
			false},
		{"after a log line", "2026-11-21T12:03:28.631264Z ERROR codex_core::tools::router: error=patch rejected\n" +
			"Error: boom\n\nStack backtrace:\n 0: x", "", 1, agent.Infra, false, "exit code 1: Error: boom", false},
		{"only a log line", "2026-11-21T12:03:28.631264Z ERROR codex_core::session: failed to record\n", "", 1,
			agent.Infra, false, "failed to record", false},
		{"hints", "Reading additional input from stdin...\nnote: run with RUST_BACKTRACE\n", "", 7, agent.Infra, false,
			"exit code 7 and said nothing", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, verdict := execFailure(tt.stderr, tt.message, tt.exit)
			if f.Kind != tt.kind || f.Final != tt.final || !strings.Contains(f.Message, tt.says) ||
				sessionLost(verdict) != tt.lost {
				t.Errorf("got %+v (%s)", f, verdict)
			}
		})
	}
}

// TestExecCaptures replays output of the real Codex, see testdata/exec/NOTES.md.
func TestExecCaptures(t *testing.T) {
	tests := []struct {
		file   string
		exit   string
		answer string // the end of it
		kinds  string // of the events
		kind   string // of the failure
		says   string
	}{
		{"fix", "0", "ranges over all numbers now.\n", "reasoning message command command reasoning message " +
			"file_change file_change message usage", "", ""},
		{"work", "0", "sum_test.go\n", "reasoning message command command message usage", "", ""},
		{"parallel", "0", "second\n", "message command command command command message usage", "", ""},
		{"prose", "0", "asked for.", "message usage", "", ""},
		{"resume", "0", "second\n", "message command command command command message usage", "", ""},
		{"readonly", "0", "ranges over all numbers now.\n", "reasoning message command command reasoning message " +
			"message usage", "", ""},
		{"error500", "1", "", "error error", agent.Infra, "overloaded"},
		{"limited", "1", "", "error error", agent.Limit, "429"},
		{"unauthorized", "1", "", "error error", agent.Infra, "codex login"},
		{"context-full", "1", "", "error", agent.Limit, "session is full"},
		{"cut", "1", "", "error error", agent.Infra, "broke off"},
		{"silent", "1", "", "error error", agent.Infra, "silent"},
		{"refused", "1", "", "error error", agent.Infra, "could not be reached"},
		{"nokey", "1", "", "error", agent.Infra, "NOPE"},
		{"interrupted", "1", "", "message command command", agent.Infra, "exit code 1"},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			file, err := filepath.Abs(filepath.Join("testdata", "exec", tt.file+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			a, y := fakeCodex(t, "cat >/dev/null; cat "+file+"; exit "+tt.exit), newExecTry(t, "p")
			res, err := y.run(t.Context(), t, a)
			var kinds []string
			for _, e := range y.events {
				kinds = append(kinds, e.Kind)
			}
			if got := strings.Join(kinds, " "); got != tt.kinds {
				t.Errorf("got events %s, want %s", got, tt.kinds)
			}
			if said, _ := os.ReadFile(file); y.raw.String() != string(said) {
				t.Error("the raw log is not what was said")
			}
			var f *agent.Failure
			switch {
			case tt.kind == "" && (err != nil || !strings.HasSuffix(string(res.Output), tt.answer)):
				t.Errorf("got %q and %v", res.Output, err)
			case tt.kind != "" && (!errors.As(err, &f) || f.Kind != tt.kind || !strings.Contains(f.Message, tt.says)):
				t.Errorf("got %v", err)
			}
		})
	}
}
