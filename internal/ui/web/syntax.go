package web

import (
	_ "embed"
	"encoding/json"
	"path"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// A token is a part of a line of code, with its class: "c" for a comment, "s" a string, "k" a keyword, "n" a number,
// "f" a function that is called or declared, "" anything else.
type token struct{ Class, Text string }

// A language says what comments, strings and keywords look like. It is enough to color code, not to parse it.
type language struct {
	Names    string    // extensions or names of files
	Line     []string  // what begins a comment up to the end of the line
	Block    [2]string // what begins and ends a comment of several lines
	Quotes   string    // what strings of one line begin and end with
	Long     []string  // what strings of several lines begin and end with
	Keywords []string  // in lines
	Fold     bool      // keywords may be in any case
	Dash     bool      // words may contain "-"
	Apart    bool      // a "#" that follows a word begins no comment

	known map[string]bool // the keywords
}

//go:embed languages.json
var languageData []byte

// languages returns the languages whose code is colored, by extension or name of file.
var languages = sync.OnceValue(func() map[string]*language {
	var list []*language
	if err := json.Unmarshal(languageData, &list); err != nil {
		panic(err) // a test reads it
	}
	all := map[string]*language{}
	for _, l := range list {
		l.known = map[string]bool{}
		for _, k := range strings.Fields(strings.Join(l.Keywords, " ")) {
			l.known[k] = true
		}
		for _, name := range strings.Fields(l.Names) {
			all[name] = l
		}
	}
	return all
})

// A scanner colors the lines of a file, one after the other.
type scanner struct {
	*language
	until string // what ends the comment or string that goes on, "" if none does
	class string // of that
}

// languageOf returns the language of a file by its name, or nil.
func languageOf(name string) *language {
	base := strings.ToLower(path.Base(name))
	if l := languages()[strings.TrimPrefix(path.Ext(base), ".")]; l != nil {
		return l
	}
	return languages()[base]
}

// spans splits a line of code into spans, in time proportional to its length.
func (s *scanner) spans(line string) (out []token) {
	if s.language == nil {
		return []token{{"", line}}
	}
	from := 0 // of what has no class yet
	add := func(at, end int, class string) {
		if from < at {
			out = append(out, token{"", line[from:at]})
		}
		out, from = append(out, token{class, line[at:end]}), end
	}
	i := 0
	if s.until != "" {
		i = s.close(line, 0)
		add(0, i, s.class)
	}
	quotes := s.Quotes
	for i < len(line) {
		at, rest := i, line[i:]
		r, size := utf8.DecodeRuneInString(rest)
		opener, class := s.opener(line, i)
		switch {
		case opener == "//":
			add(at, len(line), "c")
			return out
		case opener != "":
			s.until, s.class = opener, class
			i += len(opener)
			if class == "c" {
				i, s.until = at+len(s.Block[0]), s.Block[1]
			}
			i = s.close(line, i)
			add(at, i, class)
		case strings.ContainsRune(quotes, r):
			if i = quoted(line, i); i > at {
				add(at, i, "s")
			} else {
				quotes = strings.ReplaceAll(quotes, string(r), "") // nor does one that follows end in this line
				i += size
			}
		case unicode.IsDigit(r):
			i += lengthOf(rest, func(r rune) bool { return r == '.' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) })
			add(at, i, "n")
		case unicode.IsLetter(r) || r == '_' || r == '$' || r == '@':
			i += size + lengthOf(rest[size:], func(r rune) bool {
				return r == '_' || r == '$' || r == '-' && s.Dash || unicode.IsLetter(r) || unicode.IsDigit(r)
			})
			name := line[at:i]
			if s.Fold {
				name = strings.ToLower(name)
			}
			switch {
			case s.known[name]:
				add(at, i, "k")
			case i < len(line) && line[i] == '(':
				add(at, i, "f")
			}
		default:
			i += size
		}
	}
	if from < len(line) {
		out = append(out, token{"", line[from:]})
	}
	return out
}

// opener returns what ends the comment or the string of several lines that begins at i, "//" for a comment that ends
// with the line, and "" if none begins there.
func (s *scanner) opener(line string, i int) (until, class string) {
	rest := line[i:]
	for _, mark := range s.Line {
		if strings.HasPrefix(rest, mark) && (!s.Apart || i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			return "//", "c"
		}
	}
	if s.Block[0] != "" && strings.HasPrefix(rest, s.Block[0]) {
		return s.Block[1], "c"
	}
	for _, mark := range s.Long {
		if strings.HasPrefix(rest, mark) {
			return mark, "s"
		}
	}
	return "", ""
}

// close returns where what goes on ends in the line, at the latest with the line.
func (s *scanner) close(line string, from int) int {
	i := strings.Index(line[from:], s.until)
	if i < 0 {
		return len(line)
	}
	i += from + len(s.until)
	s.until = ""
	return i
}

// quoted returns where the string that begins at i ends, and i if it does not end in the line: then its quote may be an
// apostrophe.
func quoted(line string, i int) int {
	for j := i + 1; j < len(line); j++ {
		switch line[j] {
		case '\\':
			j++
		case line[i]:
			return j + 1
		}
	}
	return i
}

// lengthOf returns the length of the characters at the beginning that fit.
func lengthOf(text string, fits func(rune) bool) int {
	for i, r := range text {
		if !fits(r) {
			return i
		}
	}
	return len(text)
}
