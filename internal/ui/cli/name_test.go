package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plait-run/plait/internal/record/store/sqlite"
)

// Command lines that a program suggests begin with its own name.
func TestName(t *testing.T) {
	home := t.TempDir()
	other := func(args ...string) (string, int) {
		var out, errs bytes.Buffer
		a := &app{program: Program{Name: "plaitd", Open: sqlite.OpenHome, OpenHome: sqlite.OpenHome},
			in:  strings.NewReader(""),
			out: &out, err: &errs, getenv: func(name string) string { return map[string]string{"PLAIT_HOME": home}[name] }}
		defer a.close()
		root := a.root()
		root.SetArgs(args)
		code := a.finish(root.ExecuteContext(context.Background()))
		return out.String() + errs.String(), code
	}
	for _, x := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"ls"}, exitDone, "start one with: plaitd run -p"},
		{[]string{"show", "k7f2"}, exitNotFound, "list tasks with `plaitd ls --all`"},
		{[]string{"gate", "list"}, exitDone, "past answers with: plaitd gate list --all"},
		{[]string{"flow", "check"}, exitUsage, "plaitd flow check takes"},
		{[]string{"run", "--help"}, exitDone, "  plaitd run -p"},
	} {
		got, code := other(x.args...)
		if code != x.code || !strings.Contains(got, x.want) {
			t.Errorf("%q: exit code %d, want %d; got %s, want %q in it", x.args, code, x.code, got, x.want)
		}
	}
	a := &app{program: Program{Name: "plaitd", OpenHome: sqlite.OpenHome}}
	each(a.root(), func(cmd *cobra.Command) {
		texts := []string{cmd.Short, cmd.Long, cmd.Example}
		cmd.Flags().VisitAll(func(f *pflag.Flag) { texts = append(texts, f.Usage) })
		for _, text := range texts {
			if said := a.says(text); said != text {
				t.Errorf("the help of %s says %q, want %q", cmd.CommandPath(), text, said)
			}
		}
	})
}
