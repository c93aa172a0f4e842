package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/sys/secret"
)

const key = "sk-VERY/SECRET+0123=<é>\"&\\end"

// setOf returns a set of keys.
func setOf(keys ...string) *secret.Set {
	s := &secret.Set{}
	for _, k := range keys {
		s.Add(k)
	}
	return s
}

// marshal encodes like Go's encoder, with and without escapes for HTML.
func marshal(s string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	e.Encode(s)
	return strings.TrimSuffix(strings.TrimSpace(b.String())[1:], `"`)
}

// ascii encodes like encoders that escape all but ASCII, and more.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '/' || r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r > 0x7e || strings.ContainsRune("+<>&'", r):
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// spellings are ways to write a key that are replaced as a whole.
var spellings = map[string]func(string) string{
	"itself":       func(s string) string { return s },
	"JSON":         func(s string) string { return marshal(s, true) },
	"JSON, plain":  func(s string) string { return marshal(s, false) },
	"JSON, ASCII":  ascii,
	"JSON in JSON": func(s string) string { return marshal(marshal(s, true), true) },
	"query":        url.QueryEscape,
	"query, lower": func(s string) string {
		s = url.QueryEscape(s)
		for i := 0; i+2 < len(s); i++ {
			if s[i] == '%' {
				s = s[:i] + strings.ToLower(s[i:i+3]) + s[i+3:]
			}
		}
		return s
	},
	"path":   url.PathEscape,
	"folded": func(s string) string { return s[:7] + "\r\n" + s[7:] },
}

func TestSpellings(t *testing.T) {
	s := setOf(key)
	for name, spell := range spellings {
		t.Run(name, func(t *testing.T) {
			want := "a *** b"
			if name == "folded" {
				want = "a ***\n b"
			}
			if diff := cmp.Diff(want, s.Text("a "+spell(key)+" b")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestBase64 encodes a text around a key: what is left of the key must not be a part of it.
func TestBase64(t *testing.T) {
	s := setOf(key)
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding,
		base64.RawURLEncoding} {
		for before := range 7 {
			for after := range 4 {
				text := enc.EncodeToString([]byte(strings.Repeat("u", before) + key + strings.Repeat(":", after)))
				for _, spelled := range []string{text, url.QueryEscape(text), marshal(text, true), ascii(text),
					text[:20] + "\n" + text[20:]} {
					got := s.Text("Basic " + spelled)
					left := strings.TrimSpace(strings.Replace(got, "***", "", 1))
					if !strings.Contains(got, "***") || len(left) > len("Basic ")+before*4/3+after*4/3+12 {
						t.Errorf("%d, %d: %q becomes %q", before, after, spelled, got)
					}
				}
			}
		}
	}
}

func TestAdd(t *testing.T) {
	s := setOf("short", "elevenchars", " twelve-chars\n", "", "two lines\nof a key")
	text := "short elevenchars twelve-chars; two lines\r\nof a key; {\"k\":\"two lines\\nof a key\"}"
	if diff := cmp.Diff("short elevenchars ***; ***\n; {\"k\":\"***\"}", s.Text(text)); diff != "" {
		t.Error(diff)
	}
	var none *secret.Set
	none.Add("twelve-chars")
	if got := none.Text(text); got != text {
		t.Errorf("a nil set changes a text to %q", got)
	}
}

// TestEven keeps the length of what is replaced.
func TestEven(t *testing.T) {
	var b bytes.Buffer
	w := setOf("twelve-chars").Even(&b)
	_, err := io.WriteString(w, "it is twelve-\nchars.\n")
	if err != nil || w.Flush() != nil || b.String() != "it is *******\n*****.\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestLongest(t *testing.T) {
	s := setOf("abcdefghijkl", "abcdefghijklmnopqrst")
	if got := s.Text("abcdefghijklmnopqrst abcdefghijkl!"); got != "*** ***!" {
		t.Errorf("got %q", got)
	}
}

// TestPart cuts a key off, as messages are.
func TestPart(t *testing.T) {
	long := "sk-ant-api03-" + strings.Repeat("x8Yq", 20)
	s := setOf(long)
	for text, want := range map[string]string{
		"keys begin with sk-ant-api03-… as you know": "keys begin with sk-ant-api03-… as you know",
		"wrong key " + long[:50] + "…":               "wrong key ***…",
		"wrong key " + long[:50]:                     "wrong key ***",
		"wrong key " + long[:40]:                     "wrong key " + long[:40],
	} {
		if got := s.Text(text); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// chunked writes a text in pieces and returns what comes out.
func chunked(s *secret.Set, text string, sizes func() int) (string, error) {
	var b bytes.Buffer
	w := s.Writer(&b)
	for len(text) > 0 {
		n := min(max(1, sizes()), len(text))
		if _, err := w.Write([]byte(text[:n])); err != nil {
			return "", err
		}
		text = text[n:]
	}
	err := w.Flush()
	return b.String(), err
}

// TestLaws plants spellings of keys in random texts, which are written in random pieces.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[A-Za-z0-9]{4}[A-Za-z0-9_/+=.&<>" %é-]{7,60}[A-Za-z0-9_/+=&é-]`)
		keys := rapid.SliceOfN(key, 1, 3).Draw(t, "keys")
		s := setOf(keys...)
		var names []string
		for name := range spellings {
			names = append(names, name)
		}
		noise := rapid.OneOf(
			rapid.SampledFrom([]string{"\\", "%", "\n", "\r\n", `\n`, `\u`, `"`, "%25", `\\\\`, "***", " "}),
			rapid.StringMatching(`[a-z{}":,\n ]{0,20}`),
			rapid.Custom(func(t *rapid.T) string { // the beginning of a key
				k := rapid.SampledFrom(keys).Draw(t, "of")
				return k[:rapid.IntRange(1, 3).Draw(t, "bytes")] + ";"
			}))
		var text, want strings.Builder
		var planted []string
		for range rapid.IntRange(0, 6).Draw(t, "parts") {
			n := noise.Draw(t, "noise") + " | "
			text.WriteString(n)
			want.WriteString(n)
			if rapid.Bool().Draw(t, "plant") {
				name := rapid.SampledFrom(names).Draw(t, "spelling")
				spelled := spellings[name](rapid.SampledFrom(keys).Draw(t, "key"))
				planted = append(planted, spelled)
				text.WriteString(spelled)
				want.WriteString("***" + strings.Repeat("\n", strings.Count(spelled, "\n")))
			}
		}
		tail := noise.Draw(t, "tail")
		if len(planted) > 0 {
			tail = " | " + tail
		}
		text.WriteString(tail)
		want.WriteString(tail)
		if got := s.Text(text.String()); got != want.String() {
			t.Fatalf("%q becomes %q, not %q", text.String(), got, want.String())
		}
		got, err := chunked(s, text.String(), func() int { return rapid.IntRange(1, 9).Draw(t, "size") })
		if err != nil || got != want.String() {
			t.Fatalf("%q in pieces becomes %q, %v", text.String(), got, err)
		}
	})
}

// FuzzWriter checks that what comes out does not depend on how a text is divided, and has no key.
func FuzzWriter(f *testing.F) {
	f.Add(key, "wrong key: "+key+"\n", uint8(3))
	f.Add("dGVzdC1rZXktMDAw", base64.StdEncoding.EncodeToString([]byte("u:dGVzdC1rZXktMDAw:")), uint8(1))
	f.Add("pass%25word%\\\\", "pass%2525word%25\\\\\\\\ pass%25word%\\\\", uint8(2))
	f.Fuzz(func(t *testing.T, key, text string, size uint8) {
		s := setOf(key)
		whole := s.Text(text)
		got, err := chunked(s, text, func() int { return int(size) })
		if err != nil || got != whole {
			t.Errorf("%q becomes %q, and in pieces %q, %v", text, whole, got, err)
		}
		if strings.Count(whole, "\n") != strings.Count(text, "\n") {
			t.Errorf("%q becomes %q: another number of lines", text, whole)
		}
		if key = strings.TrimSpace(key); len(key) < secret.Least {
			if whole != text {
				t.Errorf("%q becomes %q without a key", text, whole)
			}
			return
		}
		if !strings.Contains(key, "*") && strings.Contains(whole, key) {
			t.Errorf("%q becomes %q, which has the key", text, whole)
		}
	})
}

// BenchmarkWriter writes 8 MiB of a program's output, in pieces of 32 KiB.
func BenchmarkWriter(b *testing.B) {
	line := `{"type":"item","id":"item_42","text":"ok  \tgithub.com/plait-run/plait/internal/sys/secret\t0.412s\n"}` + "\n"
	piece := []byte(strings.Repeat(line, 32<<10/len(line)))
	for _, keys := range []int{0, 1, 8} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			s := &secret.Set{}
			for i := range keys {
				s.Add(fmt.Sprintf("sk-ant-%d-%s", i, strings.Repeat("x8Yq", 20)))
			}
			b.SetBytes(8 << 20)
			for b.Loop() {
				w := s.Writer(io.Discard)
				for n := 0; n < 8<<20; n += len(piece) {
					w.Write(piece)
				}
				w.Flush()
			}
		})
	}
}
