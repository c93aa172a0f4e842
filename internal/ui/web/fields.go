package web

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// An outputField is a field of an output: a name with a text, or with nested fields.
type outputField struct {
	Name string // "" for an item of a list
	Text string
	Long bool // the text has several lines
	Of   []outputField
}

// maxFields limits how many fields of an output a page shows, maxDeep how deeply they are nested.
const (
	maxFields = 200
	maxDeep   = 5
)

// outputFields returns the fields of a JSON object in order, except those in without. It returns nil
// if data is not a JSON object, is too long or has too many fields; it is then shown unformatted.
func outputFields(data []byte, without ...string) []outputField {
	if len(data) > maxPretty || !json.Valid(data) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data)) // tokens keep the keys in order
	d.UseNumber()
	if t, _ := d.Token(); t != json.Delim('{') {
		return nil
	}
	room := maxFields
	out := fieldsOf(d, true, maxDeep, &room)
	if room < 0 {
		return nil
	}
	return slices.DeleteFunc(out, func(f outputField) bool { return slices.Contains(without, f.Name) })
}

// fieldsOf reads the rest of an object or a list of valid JSON.
func fieldsOf(d *json.Decoder, named bool, deep int, room *int) []outputField {
	var out []outputField
	for d.More() {
		var f outputField
		if named {
			name, _ := d.Token()
			f.Name, _ = name.(string)
		}
		if *room--; *room < 0 || deep == 0 {
			*room = -1
			return nil
		}
		switch t, _ := d.Token(); t := t.(type) {
		case json.Delim:
			f.Of = fieldsOf(d, t == '{', deep-1, room)
			if *room < 0 {
				return nil
			}
		case bool:
			f.Text = map[bool]string{true: "yes", false: "no"}[t]
		case string:
			f.Text = t
		case json.Number:
			f.Text = t.String()
		}
		f.Long = strings.Contains(strings.TrimSpace(f.Text), "\n")
		if f.Text != "" || len(f.Of) > 0 {
			out = append(out, f)
		}
	}
	d.Token() // the closing delimiter
	return out
}

// withoutText returns fields without those that have only a text, which is shown already.
func withoutText(fields []outputField, text string) []outputField {
	var out []outputField
	for _, f := range fields {
		had := len(f.Of)
		if f.Of = withoutText(f.Of, text); had > 0 && len(f.Of) == 0 || had == 0 && strings.TrimSpace(f.Text) == text {
			continue
		}
		out = append(out, f)
	}
	return out
}

// Label returns the name of a field in words: "sessionGoal" is "Session goal".
func (f outputField) Label() string {
	var b strings.Builder
	before := ' '
	for i, r := range strings.TrimLeft(f.Name, "$") {
		switch {
		case r == '_' || r == '-':
			r = ' '
		case i == 0:
			r = unicode.ToUpper(r)
		case unicode.IsUpper(r) && unicode.IsLower(before):
			b.WriteRune(' ')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
		before = r
	}
	return b.String()
}
