package web

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// A field of an output, as people read it: a name with a text, or with fields of its own.
type outputField struct {
	Name string // "" of an entry of a list
	Text string
	Long bool // the text has lines
	Of   []outputField
}

// maxFields bounds how many fields of one output a page has, maxDeep how deep they lie.
const (
	maxFields = 200
	maxDeep   = 5
)

// outputFields sets out the fields of a JSON object in their order, but for those that are left out.
// What is no object, or has more than a page can have, has none: it is shown as it is.
func outputFields(data []byte, without ...string) []outputField {
	if len(data) > maxPretty || !json.Valid(data) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data)) // by its tokens the keys are in their order
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

// fieldsOf reads what is left of an object or a list of valid JSON.
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
	d.Token() // its end
	return out
}

// Label is the name of a field in words: "sessionGoal" is "Session goal".
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
