package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// TestCompose checks that the compose file for trying plaitd can be read, listens only on this machine, and
// contains no password.
func TestCompose(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "plaitd", "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Image       string
			Environment map[string]string
			Ports       []string
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "s3"} {
		s, ok := file.Services[name]
		if !ok || s.Image == "" || file.Volumes[name] == nil || len(s.Ports) == 0 {
			t.Errorf("service %s has no image, port or volume", name)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("service %s listens on %s", name, p)
			}
		}
		secrets := 0
		for key, value := range s.Environment {
			if strings.Contains(key, "PASSWORD") || strings.Contains(key, "KEY") {
				secrets++
				if !strings.HasPrefix(value, "${") || !strings.Contains(value, ":?") {
					t.Errorf("service %s: %s has a value in the file", name, key)
				}
			}
		}
		if secrets == 0 {
			t.Errorf("service %s has no secrets", name)
		}
	}
}
