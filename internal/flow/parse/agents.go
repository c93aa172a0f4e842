package parse

import (
	"fmt"
	"strings"
)

// ParseAgents reads the agents of roles, written as ROLE.agent=NAME.
func ParseAgents(pairs []string) (map[string]string, error) {
	roles := map[string]string{}
	for _, pair := range pairs {
		key, agent, ok := strings.Cut(pair, "=")
		role, isAgent := strings.CutSuffix(key, ".agent")
		if !ok || !isAgent || role == "" || agent == "" {
			return nil, fmt.Errorf("invalid value %q for --set: want ROLE.agent=NAME", pair)
		}
		roles[role] = agent
	}
	return roles, nil
}
