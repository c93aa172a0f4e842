package web

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName limits the name of a download, in characters.
const maxName = 100

// safeName returns a name that is safe as a file name on every system.
func safeName(name string) string {
	name = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) || c == utf8.RuneError || strings.ContainsRune(`/\:*?"<>|%`, c) {
			return '_'
		}
		return c
	}, name)
	if r := []rune(name); len(r) > maxName {
		name = string(r[len(r)-maxName:])
	}
	name = strings.TrimRight(strings.TrimLeft(name, ". "), ". ")
	stem, _, _ := strings.Cut(strings.ToUpper(name), ".")
	if stem = strings.TrimRight(stem, " "); name == "" || devices.MatchString(stem) {
		name = "_" + name
	}
	return name
}

// devices are reserved names on some systems.
var devices = regexp.MustCompile(`^(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[0-9¹²³])$`)

// hand sends an agent's bytes as a download, so that no browser takes them for one of our pages. If
// from is short or corrupt, the response is shorter than announced.
func hand(w http.ResponseWriter, name string, n int64, from io.Reader) error {
	name = safeName(name)
	head := w.Header()
	head.Set("Content-Type", "application/octet-stream")
	head.Set("Content-Length", fmt.Sprint(n))
	head.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	head.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	io.CopyN(w, from, n) // the response has begun, so errors cannot be reported
	return nil
}
