package dag

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/sys/number"
)

func TestCanonical(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"white space goes", " { \"a\" : [ 1 , 2 ] }\n", `{"a":[1,2]}`},
		{"keys by UTF-16 units",
			"{\"\u20ac\":1,\"\\r\":2,\"\ufb33\":3,\"1\":4,\"\U0001f600\":5,\"\u0080\":6,\"\u00f6\":7}",
			"{\"\\r\":2,\"1\":4,\"\u0080\":6,\"\u00f6\":7,\"\u20ac\":1,\"\U0001f600\":5,\"\ufb33\":3}"},
		{"numbers of RFC 8785", `[333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001]`,
			`[333333333.3333333,1e+30,4.5,0.002,1e-27]`},
		{"negative zero", `-0`, `0`},
		{"escapes", `"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"`, `"€$\u000f\nA'B\"\\\\\"/"`},
		{"what others escape stays", "\"<>&\u2028\"", "\"<>&\u2028\""},
		{"largest integer", `9007199254740991`, `9007199254740991`},
		{"2^53", `9007199254740992`, `9007199254740992`},
		{"one value, three spellings", `[1e16, 10000000000000000, 1.0E+16]`,
			`[10000000000000000,10000000000000000,10000000000000000]`},
		{"nanoseconds of Python", `1.7326356605e+18`, `1732635660500000000`},
		{"the shortest spelling of 2^60", `1152921504606847000`, `1152921504606847000`},
		{"a fraction is rounded", `3.14159265358979323846`, `3.141592653589793`},
		{"0 with any exponent", `[0e999999999, -0.0e-999999999]`, `[0,0]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Canonical([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestCanonicalRefuses(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)
	for _, tt := range []struct {
		name, in string
		want     error
	}{
		{"integer that would be rounded", `9007199254740993`, number.ErrInexact},
		{"integer that would be rounded, as a fraction", `9007199254740993.0`, number.ErrInexact},
		{"integer that would be rounded, with an exponent", `9.007199254740993e15`, number.ErrInexact},
		{"fraction without place for it", `9007199254740992.5`, number.ErrInexact},
		{"digits that the shortest spelling of 2^60 has not", `1152921504606846976`, number.ErrInexact},
		{"nanoseconds", `1732635660123456789`, number.ErrInexact},
		{"number out of range", `1e400`, number.ErrInexact},
		{"exponent out of range", `1e99999999999999999999`, number.ErrInexact},
		{"number that would become 0", `1e-400`, number.ErrInexact},
		{"exponent below the range", `1e-99999999999999999999`, number.ErrInexact},
		{"too large in canonical form", `[` + strings.Repeat("1e20,", 1<<19) + `0]`, ErrTooLarge},
		{"too deep", deep, ErrTooDeep},
		{"a million brackets", strings.Repeat("[", 1<<20), ErrTooDeep},
		{"too large", `"` + strings.Repeat("x", MaxBytes) + `"`, ErrTooLarge},
		{"duplicate key", `{"a":1,"a":2}`, nil},
		{"invalid UTF-8", "\"\xff\"", nil},
		{"lone surrogate", `"\ud800"`, nil},
		{"rest", `{} {}`, nil},
		{"nothing", ``, nil},
		{"NaN", `NaN`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Canonical([]byte(tt.in))
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got error %v, want %v", err, tt.want)
			}
		})
	}
	exactly := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	if _, err := Canonical([]byte(exactly)); err != nil {
		t.Errorf("%d levels: %v", MaxDepth, err)
	}
}

// What is refused is explained: where it is, and what is wrong with it.
func TestCanonicalExplains(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"at":1732635660123456789}`, `"at": number 1732635660123456789 cannot be kept exactly; write it as a text`},
		{`{"a":[0,{"b":1e400}]}`, `"a/1/b": number 1e400 cannot be kept exactly; write it as a text`},
		{`9007199254740993`, `number 9007199254740993 cannot be kept exactly; write it as a text`},
		{"{\"a\":1,\n \"a\":2}", `line 2, column 2: duplicate key "a"`},
		{`{"cut":"ö\ud83d"}`, `"cut": line 1, column 10: \ud83d is half of a character`},
		{`{"\ud83d":1}`, `line 1, column 3: \ud83d is half of a character`},
		{"{\"a\":[1,\n2,],}", `"a": line 2, column 2: no value between the comma and ']'`},
		{`{"a":1 , }`, `line 1, column 8: no value between the comma and '}'`},
		{`{"a":NaN}`, `"a": line 1, column 6: invalid character 'N' at start of value`},
		{`{"a":1`, `line 1, column 7: the end is missing`},
		{"{\"a\":\"\xff\"}", `"a": line 1, column 7: invalid UTF-8`},
		{`{} {}`, `line 1, column 4: unexpected "{}" after the value`},
		{" ", `there is no value`},
		{strings.Repeat("[", 65), `nested deeper than 64 levels`},
	} {
		if _, err := Canonical([]byte(tt.in)); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %v, want %s", tt.in, err, tt.want)
		}
	}
}

// FuzzCanonical: what is written is read, and read as the same; a valid document is refused only with a reason
// that has a name.
func FuzzCanonical(f *testing.F) {
	for _, s := range append(slices.Clone(odd), `{"x":1e16}`, `1.7326356605e+18`, `123456789012345680000`, `1e999999999`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		canon, err := Canonical(raw)
		if err != nil {
			return
		}
		again, err := Canonical(canon)
		if err != nil || !bytes.Equal(again, canon) || !isCanonical(canon) {
			t.Errorf("%q became %q, and that %q, %v", raw, canon, again, err)
		}
		node, err := encode(TypeFlow, canon, nil)
		if err != nil {
			return
		}
		if n, err := Decode(node); err != nil && canon[0] == '{' || err == nil && !bytes.Equal(n.Payload, canon) {
			t.Errorf("%q was written as %q, which reads %q, %v", raw, node, n.Payload, err)
		}
	})
}

func TestAppendStringIsCanonical(t *testing.T) {
	for _, s := range []string{"", "plain", "a\"b\\c", "\x00\x01\x1f\x7f", "\b\f\n\r\t", "ö€😀\u2028<>&",
		"bad\xffutf8", "1234567\x1f", "12345678\"", "\\2345678", "1234567ö", "12345678\x7f12345678\n"} {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Canonical(raw)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(AppendString(nil, s))); diff != "" {
			t.Errorf("%q: -want +got\n%s", s, diff)
		}
	}
}

func TestHashSpelling(t *testing.T) {
	h := Sum([]byte("hello"))
	const want = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // printf hello | sha256sum
	if h.String() != want || h.Short() != want[:12] {
		t.Errorf("got %s and %s", h, h.Short())
	}
	for _, bad := range []string{"", want[:63], want + "0", strings.ToUpper(want), strings.Replace(want, "2", "g", 1)} {
		if _, err := ParseHash(bad); !errors.Is(err, ErrBadHash) {
			t.Errorf("ParseHash(%q): %v, want ErrBadHash", bad, err)
		}
	}
	for _, v := range []Hash{h, {}} {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var back Hash
		if err := json.Unmarshal(data, &back); err != nil || back != v {
			t.Errorf("%s came back as %s: %v", data, back, err)
		}
	}
	if data, _ := json.Marshal(Hash{}); string(data) != "null" {
		t.Errorf("the zero hash is written as %s", data)
	}
}
