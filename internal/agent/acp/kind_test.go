package acp

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/flow"
)

// TestKinds checks the table against what flows may say and what make installs.
func TestKinds(t *testing.T) {
	names := Names()
	slices.Sort(names)
	if !slices.Equal(names, flow.ACPAgents) {
		t.Errorf("there are %v, and flows may say %v", names, flow.ACPAgents)
	}
	makefile, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	placeholder := regexp.MustCompile(`\{[a-z]+\}`)
	for _, k := range Kinds {
		if !strings.Contains(string(makefile), k.Version) {
			t.Errorf("make does not install %s %s", k.Name, k.Version)
		}
		for _, r := range k.Routes {
			if keys[r.API].key == "" {
				t.Errorf("%s: nobody knows the API %q", k.Name, r.API)
			}
			told := ""
			for _, text := range r.Env {
				told += text
			}
			for _, text := range r.Files {
				told += text
			}
			for _, text := range k.Env {
				told += text
			}
			if !strings.Contains(told, "{url}") || !strings.Contains(told, "{token}") {
				t.Errorf("%s: it is not told the address and the token of its gateway", k.Name)
			}
			if left := placeholder.FindString(k.fill(told, "a", "b", "c", "d")); left != "" && left != "{" {
				t.Errorf("%s: nothing fills %s", k.Name, left)
			}
		}
		if len(k.Routes) == 0 && len(k.Tokens) == 0 {
			t.Errorf("%s: it has no way to its model", k.Name)
		}
	}
}
