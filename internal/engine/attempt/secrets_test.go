package attempt

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/sys/secret"
)

const held = "sk-VERYSECRET"

// TestCleanFiles replaces a key in what an agent left, and nothing else.
func TestCleanFiles(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	for name, text := range map[string]string{
		filepath.Join(dir, "said.sh"): "echo " + held + "\n", filepath.Join(dir, "other"): "nothing\n", outside: held,
	} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	e := &Runner{cfg: Config{Host: Host{Secrets: &secret.Set{}}}}
	e.cfg.Host.Secrets.Add(held)
	if err := e.clean(root); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		filepath.Join(dir, "said.sh"): "echo ***\n", filepath.Join(dir, "other"): "nothing\n", outside: held,
	} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "said.sh")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestDiscreetAnswer: the fields and the text of an answer, whose front matter would not be YAML with *** in it.
func TestDiscreetAnswer(t *testing.T) {
	e := &Runner{cfg: Config{Host: Host{Secrets: &secret.Set{}}}}
	e.cfg.Host.Secrets.Add(held)
	said := []byte("---\n$status: done\nkey: " + held + "\n---\nIt is " + held)
	ans, err := parse(agent.Result{Output: said}, 0, flow.Role{}, false)
	if err == nil {
		ans, err = e.discreetAnswer(ans)
	}
	if err != nil {
		t.Fatal(err)
	}
	if string(ans.meta) != `{"$status":"done","key":"***"}` || ans.fields["key"] != "***" || ans.text != "It is ***" {
		t.Errorf("%s, %v, %q", ans.meta, ans.fields, ans.text)
	}
}
