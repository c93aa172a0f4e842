package thread

import (
	"regexp"
	"strings"
)

// CouldNotStart begins what is said of an agent whose program did not start. With the role before it, it is a
// sentence.
const CouldNotStart = "could not start: "

var (
	blockedBelow = regexp.MustCompile(`(^|; )path \S+ \(thread [0-9A-Z]{26}\) is blocked: `) // of older records
	gaveUp       = regexp.MustCompile(`(^|; )(\S+): (?:infra|invalid-output): `)
)

// Plainly returns why a thread stopped for people to read, given the message in its row or an event. There the role
// and the kind of the failure come first, also where what follows says as much.
func Plainly(why string) string {
	why = blockedBelow.ReplaceAllString(why, "$1")
	var b strings.Builder
	for {
		m := gaveUp.FindStringSubmatchIndex(why)
		if m == nil {
			return b.String() + why
		}
		role, rest := why[m[4]:m[5]], why[m[1]:]
		b.WriteString(why[:m[3]])
		switch {
		case strings.HasPrefix(rest, role+" "): // it says who
		case strings.HasPrefix(rest, CouldNotStart):
			b.WriteString(role + " ")
		default:
			b.WriteString(role + ": ")
		}
		why = rest
	}
}
