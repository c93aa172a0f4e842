package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestForgeSigned commits as the user's git signs, and names a proof in the request.
func TestForgeSigned(t *testing.T) {
	t.Parallel()
	p := newForgePlace(t)
	key := filepath.Join(p.work, "ada")
	keygen := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada", "-f", key)
	if out, err := keygen.CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	signers := filepath.Join(p.work, "signers")
	for file, text := range map[string]string{
		filepath.Join(p.work, "user", ".gitconfig"): "[commit]\n\tgpgSign = true\n[gpg]\n\tformat = ssh\n" +
			"[user]\n\tsigningKey = " + key + "\n",
		signers:                         "ada@example.com " + string(public),
		filepath.Join(p.work, "policy"): "signer ada " + string(public),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, code := p.run("run", "--issue", "7", "-q"); code != 0 {
		t.Fatalf("run: exit code %d: %s", code, out)
	}
	proof := filepath.Join(p.work, "change.plait")
	var done requested
	for range 2 { // the second finds all of it
		p.json(0, &done, "task", "pr", "last", "--proof", proof)
	}
	verify := exec.Command("git", "--git-dir", p.forge.Dir, "-c", "gpg.ssh.allowedSignersFile="+signers, "verify-commit",
		done.Branch)
	const good = `Good "git" signature for ada@example.com`
	if out, err := verify.CombinedOutput(); err != nil || !strings.Contains(string(out), good) {
		t.Errorf("verify-commit: %v\n%s", err, out)
	}
	data, err := os.ReadFile(proof)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	if body := p.forge.Requests[0].Body; !strings.Contains(body, hex.EncodeToString(sum[:])) {
		t.Errorf("the body does not name %x:\n%s", sum, body)
	}
	if out, code := p.run("verify", proof, "--policy", filepath.Join(p.work, "policy")); code != 0 {
		t.Errorf("verify: exit code %d: %s", code, out)
	}
}
