package config

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
)

func TestNotify(t *testing.T) {
	all := []string{OnNeedsYou, OnDone, OnFailed}
	for _, tt := range []struct {
		name, text string
		want       Notify
		bad        string // "" for none
	}{
		{"a command", "{command: [notify-send, x]}", Notify{Command: []string{"notify-send", "x"}, On: all}, ""},
		{"an absolute path", "{command: [/bin/true]}", Notify{Command: []string{"/bin/true"}, On: all}, ""},
		{"a webhook", "{webhook: 'https://example.com/x', on: [done]}",
			Notify{Webhook: "https://example.com/x", On: []string{"done"}}, ""},
		{"of this machine", "{webhook: 'http://127.0.0.1:80/'}", Notify{Webhook: "http://127.0.0.1:80/", On: all}, ""},
		{"of this machine, version 6", "{webhook: 'http://[::1]:80/'}", Notify{Webhook: "http://[::1]:80/", On: all}, ""},
		{"of this machine, by name", "{webhook: 'http://localhost/'}", Notify{Webhook: "http://localhost/", On: all}, ""},
		{"no shell line", "{command: notify-send x}", Notify{}, "notify.command must be a list"},
		{"no program", "{command: []}", Notify{}, "notify.command must be a list"},
		{"a relative path", "{command: [./x]}", Notify{}, "absolute path"},
		{"plain http", "{webhook: 'http://example.com/'}", Notify{}, "must be an https address"},
		{"a name that begins like one of this machine", "{webhook: 'http://127.0.0.1.example.com/'}", Notify{},
			"must be an https address"},
		{"another scheme", "{webhook: 'file:///etc/passwd'}", Notify{}, "must be an https address"},
		{"no host", "{webhook: 'https:///x'}", Notify{}, "must be an https address"},
		{"an unknown event", "{on: [queued]}", Notify{}, "notify.on must be a list of needs-you, done, failed"},
		{"an unknown key", "{url: x}", Notify{}, `unknown key "url"; there are command, webhook and on`},
		{"no mapping", "[x]", Notify{}, "notify must be a mapping"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := write(t, filepath.Join(t.TempDir(), "c.yaml"), "notify: "+tt.text+"\n")
			s, err := Load(file, "/nowhere", none)
			if tt.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tt.bad) {
					t.Errorf("%v, want %q", err, tt.bad)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, s.Notify.V); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// A project may be written by agents.
func TestNotifyOfAProjectIsRefused(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"), "notify: {command: [x]}\n")
	_, err := Load("/nowhere", file, none)
	var bad *flow.InvalidError
	if !errors.As(err, &bad) || len(bad.Problems) != 1 || bad.Problems[0].Code != "NOT_HERE" {
		t.Errorf("got %v", err)
	}
}

// Settings that are shown get copied into reports, and the address of a webhook is a key.
func TestNotifyOriginHasNoSecret(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"),
		"notify: {webhook: 'https://hooks.example.com/T0/secret', command: [say, hidden]}\n")
	s, err := Load(file, "/nowhere", none)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range s.Origins() {
		if o.Key != "notify" {
			continue
		}
		if want := `command "say", webhook at hooks.example.com on needs-you, done, failed`; o.Value != want {
			t.Errorf("%q, want %q", o.Value, want)
		}
		return
	}
	t.Error("notify is not among the settings")
}
