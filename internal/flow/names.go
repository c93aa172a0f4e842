package flow

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName limits names of flows and roles, in characters.
const maxName = 64

// IsName reports whether name is valid for a flow: letters, digits, '.', '_' and '-', beginning
// with a letter or digit. It does not use a regular expression, since compiling one would take a
// third of the start-up time of a command.
func IsName(name string) bool { return name != "" && name[0] != '_' && IsRoleName(name) }

// IsRoleName is IsName for roles, which may begin with '_'.
func IsRoleName(name string) bool {
	if name == "" || name[0] == '.' || name[0] == '-' || utf8.RuneCountInString(name) > maxName {
		return false
	}
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune("._-", r) {
			return false
		}
	}
	return true
}

// IsReserved reports whether roles of flows cannot have the name.
func IsReserved(name string) bool {
	return len(name) > 4 && strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__")
}

// IsVariable reports whether name is valid for a variable of the environment.
func IsVariable(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
