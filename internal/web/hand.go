package web

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// hand sends bytes of an agent as a download: no browser takes them for a page of ours.
func hand(w http.ResponseWriter, name string, n int64, from io.Reader) error {
	name = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || strings.ContainsRune(`/\:*?"<>|`, c) {
			return '_'
		}
		return c
	}, name)
	head := w.Header()
	head.Set("Content-Type", "application/octet-stream")
	head.Set("Content-Length", fmt.Sprint(n))
	head.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	head.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	_, err := io.CopyN(w, from, n)
	return err
}

// A diffLine is a line of a patch and what it does.
type diffLine struct{ Kind, Text string }

// maxDiffLines is how much of a patch a page has.
const maxDiffLines = 4000

func diffLines(patch string) []diffLine {
	var out []diffLine
	for l := range strings.Lines(patch) {
		if len(out) == maxDiffLines {
			return append(out, diffLine{"", "… it goes on\n"})
		}
		kind := ""
		switch {
		case strings.HasPrefix(l, "+") && !strings.HasPrefix(l, "+++"):
			kind = "add"
		case strings.HasPrefix(l, "-") && !strings.HasPrefix(l, "---"):
			kind = "del"
		}
		out = append(out, diffLine{kind, l})
	}
	return out
}
