package main

import (
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
