package attempt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
)

// clean replaces known secrets in the files of an artifacts directory that can be collected.
func (e *Runner) clean(root *os.Root) error {
	secrets := e.cfg.Host.Secrets
	if root == nil || secrets.Empty() {
		return nil
	}
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		f, info, err := openRegular(root, name, entry)
		if err != nil {
			return nil
		}
		defer f.Close()
		if info.Size() > maxArtifactBytes {
			return nil
		}
		was, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		if kept := secrets.Bytes(was); !bytes.Equal(kept, was) {
			if err := agent.ReplaceIn(root, name, bytes.NewReader(kept)); err != nil {
				return &agent.Failure{Kind: agent.Infra, Message: fmt.Sprintf("replace a key in artifact %s: %v", name, err)}
			}
			return root.Chmod(name, info.Mode().Perm())
		}
		return nil
	})
}

// discreetAnswer returns an answer without known secrets.
func (e *Runner) discreetAnswer(ans answer) (answer, error) {
	secrets := e.cfg.Host.Secrets
	ans.text, ans.status = secrets.Text(ans.text), secrets.Text(ans.status)
	meta := secrets.Bytes(ans.meta)
	if bytes.Equal(meta, ans.meta) {
		return ans, nil
	}
	var err error
	ans.fields = nil
	if ans.meta, err = dag.Canonical(meta); err == nil {
		err = json.Unmarshal(ans.meta, &ans.fields)
	}
	if err != nil {
		return ans, fmt.Errorf("replace a key in the answer: %w", err)
	}
	return ans, nil
}
