package template

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"strconv"

	"github.com/osteele/liquid/values"

	"github.com/plait-run/plait/internal/sys/text"
)

// What one rendering may use. There is no clock among the limits: a decision must be the same on
// every machine, and so must an error. Steps take the place of time; the most that are allowed
// take seconds.
const (
	maxRounds   = 100_000   // of all loops
	maxElements = 1_000_000 // of the lists and ranges that it makes
	maxText     = 8 << 20   // bytes of one text
	maxBytes    = 64 << 20  // of all texts that it makes
	maxSteps    = 1 << 30   // an operation takes callSteps and one for each byte that it reads or writes
)

const (
	callSteps    = 1024
	elementSteps = 64
)

// A budget is what is left of the limits of one rendering, and its output.
type budget struct {
	rounds, elements, bytes, steps int
	spent                          error // what ran out first

	seen   int // bytes of text in the value that is being read
	chosen any // the value of the innermost case that is still compared
	scope  map[string]any
	// evaluate returns the value of an expression, nil if it has none.
	evaluate func(src string) any
	out      bytes.Buffer
}

func newBudget() *budget {
	return &budget{rounds: maxRounds, elements: maxElements, bytes: maxBytes, steps: maxSteps}
}

// take subtracts n from what is left of a limit.
func (b *budget) take(left *int, n, limit int, of string) error {
	if n > *left {
		return b.over(limit, of)
	}
	*left -= n
	return b.spent
}

func (b *budget) over(limit int, of string) error {
	if b.spent == nil {
		b.spent = overLimit{limit, of}
	}
	return b.spent
}

// An overLimit is the error of a template that used up its budget.
type overLimit struct {
	limit int
	of    string
}

func (e overLimit) Error() string { return fmt.Sprintf("over the limit of %d %s", e.limit, e.of) }

// more counts elements before they are made.
func (b *budget) more(n int) error { return b.take(&b.elements, n, maxElements, "elements of lists") }

func (b *budget) step(n int) error { return b.take(&b.steps, n, maxSteps, "steps") }

// text counts the n bytes of a text, if possible before it is made.
func (b *budget) text(n int) error {
	if n > maxText {
		return b.over(maxText, "bytes in one text")
	}
	return b.take(&b.bytes, n, maxBytes, "bytes in all texts")
}

// Write implements io.Writer for the output. It does not fail, since the engine panics if some
// writes do; the error is in spent.
func (b *budget) Write(p []byte) (int, error) {
	if b.out.Len()+len(p) > maxText {
		_ = b.over(maxText, "bytes in the rendered text")
	}
	if b.spent == nil {
		b.out.Write(p)
	}
	return len(p), nil
}

// round counts a round of a loop, whose body has size bytes.
func (b *budget) round(size int) error {
	if err := b.take(&b.rounds, 1, maxRounds, "rounds of loops"); err != nil {
		return err
	}
	if err := b.step(callSteps + 8*size); err != nil {
		return err
	}
	return b.take(&b.bytes, size, maxBytes, "bytes in all texts")
}

// read counts the steps to read a value.
func (b *budget) read(v any) error {
	switch v := v.(type) {
	case string:
		if b.seen += len(v); b.seen > 2*maxText {
			return b.over(2*maxText, "bytes in one value")
		}
		return b.step(len(v))
	case []string:
		for _, e := range v {
			if b.step(elementSteps) != nil || b.read(e) != nil {
				return b.spent
			}
		}
	case []any:
		for _, e := range v {
			if b.step(elementSteps) != nil || b.read(e) != nil {
				return b.spent
			}
		}
	case object:
		for k, e := range v {
			if b.step(elementSteps) != nil || b.read(k) != nil || b.read(e) != nil {
				return b.spent
			}
		}
	}
	return b.spent
}

// Kinds of filters. Those that are quick copy or compare text a word at a time; those that pass only
// look at their input, and make nothing.
var (
	quick = map[string]bool{"append": true, "prepend": true, opEqual: true, opNotEqual: true, opContains: true}
	pass  = map[string]bool{"default": true, "first": true, "last": true, "size": true, opEach: true, opCase: true}
	sorts = map[string]bool{"sort": true, "sort_natural": true}
)

// metered returns a filter that pays for what it reads and makes.
func (b *budget) metered(name string, fn any) func(any, ...any) (any, error) {
	rf := reflect.ValueOf(fn)
	return func(v any, args ...any) (out any, err error) {
		defer func() {
			if p := recover(); p != nil {
				out, err = nil, panicked(p)
			}
		}()
		args = append([]any{v}, args...)
		needed := 0
		for i := range rf.Type().NumIn() {
			if k := rf.Type().In(i).Kind(); k != reflect.Func && k != reflect.Interface { // not one with a default
				needed = i + 1
			}
		}
		if len(args) < needed {
			return nil, fmt.Errorf("wrong number of arguments (given %d, expected %d)", len(args)-1, needed-1)
		}
		for i, a := range args {
			if err := b.pay(name, a); err != nil {
				return nil, err
			}
			if i < rf.Type().NumIn() {
				if args[i], err = fit(a, rf.Type().In(i)); err != nil {
					return nil, err
				}
			}
		}
		if err := b.step(callSteps); err != nil {
			return nil, err
		}
		out, err = values.Call(rf, args)
		if l, ok := out.([]any); ok && l == nil {
			out = []any{}
		}
		if err == nil && !pass[name] {
			err = b.made(out)
		}
		if b.spent != nil {
			err = b.spent
		}
		return out, err
	}
}

// pay counts the steps in which a filter reads a value.
func (b *budget) pay(filter string, v any) error {
	text, isText := v.(string)
	m, isMap := v.(object)
	switch {
	case isText && quick[filter]:
		return b.step(len(text) / 8)
	case isMap && pass[filter]:
		return b.step(len(m) * elementSteps)
	case pass[filter] && !isText:
		return b.spent
	}
	before := b.steps
	b.seen = 0
	if err := b.read(v); err != nil || !sorts[filter] {
		return err
	}
	n := before - b.steps
	return b.step(n * bits.Len(uint(n)))
}

// made pays for the result of a filter.
func (b *budget) made(v any) error {
	switch v := v.(type) {
	case string:
		return b.text(len(v))
	case []byte:
		return b.text(len(v))
	case []any:
		return b.more(len(v))
	case []string:
		return b.more(len(v))
	}
	return nil
}

// fit returns a value as a filter's parameter of type t needs it. The engine would use Go's format
// for text, and the values of a map in random order for a list.
func fit(v any, t reflect.Type) (any, error) {
	if t.Kind() == reflect.Func { // an argument with a default
		t = t.Out(0)
	}
	if v == nil && t.Kind() != reflect.String && t.Kind() != reflect.Int {
		return nil, nil
	}
	needs := "number"
	switch t.Kind() {
	case reflect.String:
		return Text(v), nil
	case reflect.Int:
		if n, ok := integer(v); ok {
			return n, nil
		}
		return nil, fmt.Errorf("%s is not a whole number", clip(text.JSON(v)))
	case reflect.Slice:
		if _, ok := v.(object); ok {
			return []any{v}, nil
		}
		needs = "list"
	}
	fitting, err := values.Convert(v, t)
	if err != nil {
		return nil, fmt.Errorf("%s is not a %s", clip(text.JSON(v)), needs)
	}
	return fitting, nil
}

// panicked returns the error of what panicked with p.
func panicked(p any) error {
	err, _ := p.(error)
	if c, ok := p.(interface{ Cause() error }); ok { // the engine adds a stack to it
		err = c.Cause()
	}
	if num := new(strconv.NumError); errors.As(err, &num) {
		return fmt.Errorf("the number %s is out of range", num.Num)
	}
	return errors.New("cannot be applied to these values")
}
