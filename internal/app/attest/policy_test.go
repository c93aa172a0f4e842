package attest

import (
	"strings"
	"testing"
)

func TestBadPolicies(t *testing.T) {
	log, signer := "log "+vkey(t)+"\n", "signer ann "+authorized(t, 1)
	cosigner := cosignerKey(t)
	for text, want := range map[string]string{
		"":           "nobody may sign",
		log:          "nobody may sign",
		"sign ann":   `line 1: unknown word "sign"`,
		"signer ann": "line 1: ",
		"signer ann cert-authority " + authorized(t, 1): "no authority",
		"\nlog x":                  "line 2: \"x\" is no key of a log",
		"log":                      "want: log KEY",
		log + log:                  "its key is that of another line",
		"witness w x":              "is no key of a witness",
		"witness w " + vkey(t):     "is no key of a witness",
		"witness none " + cosigner: `"none" is taken`,
		"witness w " + cosigner + "\nwitness v " + cosigner: "its key is that of another line",
		"witness w " + cosigner + "\n" + signer:             "no line: quorum NAME",
		"group g any w":                                     `"w" is not defined before`,
		"witness w " + cosigner + "\ngroup g 2 w":           `"2" is no threshold of 1 members`,
		"witness w " + cosigner + "\ngroup g 0 w":           `"0" is no threshold`,
		"witness w " + cosigner + "\ngroup g 01 w":          `"01" is no threshold`,
		"witness w " + cosigner + "\ngroup g any w w":       `"w" is a member of a group already`,
		"witness w " + cosigner + "\ngroup w any w":         `"w" is taken`,
		"quorum q":                                   `"q" is not defined before`,
		"quorum none\nquorum none":                   "line 2: want one line: quorum NAME",
		"require":                                    `unknown rule ""`,
		"require peace":                              `unknown rule "peace"`,
		"require complete now":                       `unexpected "now"`,
		"require evidence go test exit 0":            "want: require evidence",
		`require evidence "go test"`:                 "want: require evidence",
		`require evidence "go test" exit zero`:       `"zero" is no exit code`,
		`require evidence "go test" exit 0 on files`: "want: require evidence",
		"require approval":                           "want: require approval by",
		"require approval by a,,b":                   "is no list of names",
		"require approval by a not author":           "is no list of names",
		"require agent codex":                        "want: require agent in",
		"deny":                                       `deny "": want one of`,
		"deny bugs":                                  `deny "bugs": want one of`,
		signer + "\x00":                              "a control character",
		signer + strings.Repeat("#", maxPolicy):      "longer than",
		strings.Repeat(signer, maxPolicyNames+2):     "more than 1000 definitions",
	} {
		if _, err := ParsePolicy([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %q", text, err, want)
		}
	}
}

func vkey(t testing.TB) string { return vkeyOf(t, "plait.run/log/X") }
