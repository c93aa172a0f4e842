package yamldoc

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"

	"go.yaml.in/yaml/v4"
)

// The parser knows YAML 1.1. What JSON and YAML 1.2 have beyond that is changed before it reads a document, so that
// every line and column stays where it is.

var (
	directives = regexp.MustCompile(`\A\x{FEFF}?(?:(?:%.*|[ \t]*#.*|[ \t\r]*)\n)+---`)
	version    = regexp.MustCompile(`(?m)^%YAML[ \t]+1\.\d+`)
	directive  = regexp.MustCompile(`(?m)^%\S*`)
)

// modernized returns data without the directives that the parser does not know: the version, in a document of YAML
// 1.2, and what a reader should ignore.
func modernized(data []byte) []byte {
	head := directives.Find(data)
	if head == nil {
		return data
	}
	changed := version.ReplaceAllFunc(head, func(v []byte) []byte {
		return fmt.Appendf(nil, "%-*s", len(v), "%YAML 1.1")
	})
	changed = directive.ReplaceAllFunc(changed, func(name []byte) []byte {
		if s := string(name); s == "%YAML" || s == "%TAG" {
			return name
		}
		return append([]byte("#"), name[1:]...)
	})
	return append(changed, data[len(head):]...)
}

// escape matches what follows a backslash in double quotes: a pair of escapes that are one character in JSON, or
// anything else.
var escape = regexp.MustCompile(`\\(?:u([dD][89abAB][[:xdigit:]]{2})\\u([dD][c-fC-F][[:xdigit:]]{2})|.)`)

// hidePairs replaces the backslashes of such pairs by a character that data does not have, and returns a function that
// undoes it in a node. Outside of double quotes, the same text is no escape.
func hidePairs(data []byte) (hidden []byte, show func(*yaml.Node)) {
	var backslash rune
	hidden = escape.ReplaceAllFunc(data, func(e []byte) []byte {
		if len(e) < len(`\ud83d\ude00`) {
			return e
		}
		for backslash == 0 || bytes.ContainsRune(data, backslash) {
			backslash = max(backslash+1, 0xF0000) // for private use
		}
		return bytes.ReplaceAll(e, []byte(`\`), []byte(string(backslash)))
	})
	if backslash == 0 {
		return data, func(*yaml.Node) {}
	}
	pair := regexp.MustCompile(strings.Repeat(string(backslash)+"u(.{4})", 2))
	show = func(n *yaml.Node) {
		if n.Style&yaml.DoubleQuotedStyle != 0 {
			n.Value = pair.ReplaceAllStringFunc(n.Value, func(p string) string {
				half := pair.FindStringSubmatch(p)
				high, _ := strconv.ParseInt(half[1], 16, 32)
				low, _ := strconv.ParseInt(half[2], 16, 32)
				return string(utf16.DecodeRune(rune(high), rune(low)))
			})
		}
		n.Value = strings.ReplaceAll(n.Value, string(backslash), `\`)
		for _, c := range n.Content {
			show(c)
		}
	}
	return hidden, show
}
