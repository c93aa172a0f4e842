package dag

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		{"integer that would be rounded", `9007199254740993`, ErrNumber},
		{"2^53 itself", `9007199254740992`, ErrNumber},
		{"number out of range", `1e400`, ErrNumber},
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

func TestAppendStringIsCanonical(t *testing.T) {
	for _, s := range []string{"", "plain", "a\"b\\c", "\x00\x01\x1f\x7f", "\b\f\n\r\t", "ö€😀\u2028<>&",
		"bad\xffutf8"} {
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
