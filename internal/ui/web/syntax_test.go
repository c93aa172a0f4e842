package web

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSyntax(t *testing.T) {
	for _, tt := range []struct{ file, code, want string }{
		{"a.go", `x := f("a\"b", 'c', 1.5) // y`, `x := [f f]([s "a\"b"], [s 'c'], [n 1.5]) [c // y]`},
		{"a.go", "a /* b\nc */ if", "a [c /* b]\n[c c */] [k if]"},
		{"a.go", "`x\ny` + z", "[s `x]\n[s y`] + z"},
		{"a.go", "/*/ x\n*/ y", "[c /*/ x]\n[c */] y"},
		{"A.PY", "x = \"\"\"a\nb\"\"\"; def g():", "x = [s \"\"\"a]\n[s b\"\"\"]; [k def] [f g]():"},
		{"a.sh", "echo ${#x} don't # it", "[k echo] ${#x} don't [c # it]"},
		{"Dockerfile", "RUN x", "[k RUN] x"},
		{"a.sql", "SELECT 1 -- x", "[k SELECT] [n 1] [c -- x]"},
		{"a.json", `{"a": [true, 1e3]}`, `{[s "a"]: [[k true], [n 1e3]]}`},
		{"a.txt", "if x", "if x"},
		{"größe.go", "größe(1) \xff", "[f größe]([n 1]) \xff"},
	} {
		s := scanner{language: languageOf(tt.file)}
		var got []string
		for l := range strings.SplitSeq(tt.code, "\n") {
			var b strings.Builder
			for _, p := range s.spans(l) {
				if p.Class == "" {
					b.WriteString(p.Text)
				} else {
					b.WriteString("[" + p.Class + " " + p.Text + "]")
				}
			}
			got = append(got, b.String())
		}
		if got := strings.Join(got, "\n"); got != tt.want {
			t.Errorf("%s: %q is %q, want %q", tt.file, tt.code, got, tt.want)
		}
	}
}

// TestLanguages checks the table of languages.
func TestLanguages(t *testing.T) {
	dec := json.NewDecoder(bytes.NewReader(languageData))
	dec.DisallowUnknownFields()
	var list []language
	if err := dec.Decode(&list); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, l := range list {
		for _, name := range strings.Fields(l.Names) {
			if names[name] {
				t.Errorf("%s is listed twice", name)
			}
			names[name] = true
		}
	}
}

// FuzzSyntax checks that coloring changes no line.
func FuzzSyntax(f *testing.F) {
	f.Add("a.go", "/* \"` x\n*/ `", 1, 3)
	f.Add("a.py", "'''\n\"\"\"", 0, 0)
	f.Add("x.lua", "--[[ é\n]] 1", 2, 2)
	f.Fuzz(func(t *testing.T, name, code string, from, to int) {
		s := scanner{language: languageOf(name)}
		for l := range strings.SplitSeq(code, "\n") {
			spans := s.spans(l)
			if from >= 0 && from <= to && to <= len(l) {
				spans = marked(spans, [2]int{from, to})
			}
			var again strings.Builder
			for _, p := range spans {
				again.WriteString(p.Text)
				if from == to && utf8.ValidString(l) && !utf8.ValidString(p.Text) {
					t.Fatalf("%q is cut in a character: %q", l, p.Text)
				}
			}
			if again.String() != l {
				t.Fatalf("%q became %q", l, again.String())
			}
		}
	})
}
