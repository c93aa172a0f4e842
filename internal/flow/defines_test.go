package flow

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// What DefinesAgents reads, and what says nothing about how an agent is run or what it may do. Agent and Sandbox count
// as they are.
var (
	defining = []string{"Definition.Roles", "Role.Agent", "Role.Access", "Role.Plan", "Role.Sandbox",
		"Role.Until", "Role.MCP",
		"AgentRef.Inline"}
	inert = map[string]string{
		"Definition": "Version Name Description Limits Context Graph Forks Joins Gates",
		"Role":       "Description Goal Capabilities Procedure Output Flow Model Effort Timeout Retry Chat Frontmatter",
		"AgentRef":   "Name", // of an agent in the configuration
		"Limits": "MaxRounds MaxDepth Timeout MaxConcurrent MaxTokens MaxCostMicroUSD MaxActions MaxTaskActions " +
			"MaxOutput MaxAttempts",
		"Context":    "Tokens Pin",
		"Retry":      "Max Interrupted WaitForReset",
		"Route":      "Role Prompt Location Code",
		"ForkSpec":   "Strategy Paths Join",
		"BranchPath": "ID Child Prompt",
		"JoinSpec":   "PathIDs Strategy Threshold Timeout Main Losers Files",
		"GateSpec":   "Kind Question Options Timeout OnTimeout",
	}
)

// A new field has to be put in one of the lists: in inert only if it cannot start a program, lead one elsewhere, widen
// what one may do or send a key anywhere.
func TestDefinesAgentsKnowsAllFields(t *testing.T) {
	seen := map[reflect.Type]bool{reflect.TypeFor[Agent](): true, reflect.TypeFor[Sandbox](): true}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, typ.Kind()) {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] {
			return
		}
		seen[typ] = true
		for _, f := range reflect.VisibleFields(typ) {
			known := slices.Contains(defining, typ.Name()+"."+f.Name) ||
				slices.Contains(strings.Fields(inert[typ.Name()]), f.Name)
			if f.IsExported() && !known {
				t.Errorf("DefinesAgents has no rule for %s.%s", typ.Name(), f.Name)
			}
			if f.IsExported() {
				visit(f.Type)
			}
		}
	}
	visit(reflect.TypeFor[Definition]())
}

func TestDefinesAgents(t *testing.T) {
	for _, tt := range []struct {
		name string
		role Role
		want bool
	}{
		{"an agent of the configuration", Role{Agent: &AgentRef{Name: "a"}, Access: Read, Flow: "f"}, false},
		{"access to write", Role{Access: Write}, true},
		{"full access", Role{Access: Full}, true},
		{"a role that plans", Role{Plan: true}, true},
		{"words like its keys", Role{Frontmatter: []byte(`{"default":{"env":{},"command":["x"]}}`)}, false},
		{"any agent", Role{Agent: &AgentRef{Inline: &Agent{Kind: "claude"}}}, true},
		{"a command", Role{Until: []string{"true"}}, true},
		{"a server", Role{MCP: []string{"a"}}, true},
		{"an empty sandbox", Role{Sandbox: &Sandbox{}}, true},
	} {
		d := Definition{Roles: map[string]Role{"a": {}, "b": tt.role}}
		if got := d.DefinesAgents(); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
}
