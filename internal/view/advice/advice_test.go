package advice_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/plait-run/plait/internal/view/advice"
)

func TestErrorText(t *testing.T) {
	words := func(o advice.Option) string { return fmt.Sprintf("<%s %s>", o.Verb, o.Target()) }
	done := advice.Textf("task %s is done: %s, or %s", "k7f2", advice.Option{Verb: advice.Resume, ID: "01M7", Name: "k7f2"},
		advice.Option{Verb: advice.ListAll})
	for _, x := range []struct {
		err  error
		want string
	}{
		{io.EOF, "EOF"},
		{done, "task k7f2 is done: <resume k7f2>, or <list-all >"},
		{fmt.Errorf("retry task 01M7: %w", done), "retry task 01M7: task k7f2 is done: <resume k7f2>, or <list-all >"},
		{errors.Join(io.EOF, done), "EOF\ntask k7f2 is done: <resume k7f2>, or <list-all >"},
	} {
		if got := advice.ErrorText(x.err, words); got != x.want {
			t.Errorf("it says %q of %q, want %q", got, x.err, x.want)
		}
	}
	if got, want := done.Error(), "task k7f2 is done: resume k7f2, or list-all"; got != want {
		t.Errorf("the error is %q, want %q", got, want)
	}
}
