package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestSecretsOfURL checks that the files and sockets that a URL of the record names are hidden from agents.
func TestSecretsOfURL(t *testing.T) {
	for text, want := range map[string][]string{
		"postgres://ada@h/d?passfile=%2Fs%2Fpass&sslkey=/s/key":                     {"/s/pass", "/s/key"},
		"host=h dbname=d passfile=/s/pass sslkey = '/s/a key'":                      {"/s/pass", "/s/a key"},
		"host=h servicefile=/s/services":                                            {"/s/services"},
		"postgres:///d?host=/s/one,h,/s/two&port=1,2,3&user=ada":                    {"/s/one", "/s/two"},
		"host=h,/s/two port=1,2 user=ada dbname=d passfile=/s/pass sslmode=disable": {"/s/two", "/s/pass"},
	} {
		env := map[string]string{"PLAIT_STORE": text}
		got := place{getenv: func(name string) string { return env[name] }}.secrets()
		for _, file := range want {
			if !slices.Contains(got, file) {
				t.Errorf("%s: %s is not hidden: %q", text, file, got)
			}
		}
	}
}

// TestSecretsInFiles hides the keys that configuration files name.
func TestSecretsInFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"services": "[plait]\nhost=h\nsslkey=/s/client.key\npassfile=/s/pass\n",
		"aws":      "[default]\nrole_arn = x\nweb_identity_token_file = /s/token\n",
		"temporal": "[profile.default.tls]\nclient_key_path = \"/s/temporal key\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"PLAIT_STORE": "service=plait servicefile=" + dir + "/services",
		"AWS_CONFIG_FILE":      dir + "/aws",
		"TEMPORAL_CONFIG_FILE": dir + "/temporal"}
	got := place{getenv: func(name string) string { return env[name] }}.secrets()
	for _, file := range []string{"/s/client.key", "/s/pass", "/s/token", "/s/temporal key"} {
		if !slices.Contains(got, file) {
			t.Errorf("%s is not hidden: %q", file, got)
		}
	}
}
