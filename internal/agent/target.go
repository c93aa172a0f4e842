package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many links are followed in one path.
const maxLinks = 255

// Target returns the file to which an absolute path leads. It follows all links, also those whose target does not
// exist: whoever writes there creates it.
func Target(name string) (string, error) {
	at, links := string(filepath.Separator), 0
	rest := strings.Split(name, string(filepath.Separator))
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if part == "" || part == "." {
			continue
		}
		next := filepath.Join(at, part) // at has no links, so that .. is its parent
		to, err := os.Readlink(next)
		if err != nil {
			at = next // no link
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("follow %s: over %d links", name, maxLinks)
		}
		if filepath.IsAbs(to) {
			at = string(filepath.Separator)
		}
		rest = append(strings.Split(to, string(filepath.Separator)), rest...)
	}
	return at, nil
}
