{{define "file"}}url "{{.Mirror}}/{{.Archive}}"
      sha256 "{{sum .Archive}}"{{end -}}
class Plait < Formula
  desc "Run multi-agent workflows with a record you can verify"
  homepage "https://{{.Module}}"
  version "{{.Number}}"
  license "Apache-2.0"

  on_macos do
    on_arm do
      {{template "file" .For "darwin-arm64"}}
    end
    on_intel do
      {{template "file" .For "darwin-amd64"}}
    end
  end
  on_linux do
    on_arm do
      {{template "file" .For "linux-arm64"}}
    end
    on_intel do
      {{template "file" .For "linux-amd64"}}
    end
  end

  def install
    bin.install "plait"
    man1.install Dir["man/*"]
    bash_completion.install "completions/plait"
    zsh_completion.install "completions/_plait"
    fish_completion.install "completions/plait.fish"
  end

  test do
    assert_equal "plait v#{version}\n", shell_output("#{bin}/plait --version")
  end
end
