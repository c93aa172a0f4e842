#!/bin/sh
# Installs a release of Plait from a mirror: a directory, or an address, with the files that `make release` makes.
# Nothing outside of the prefix is written, and no root is needed.
#
#   PLAIT_MIRROR=ADDRESS sh install.sh [--prefix DIR] [--signers FILE]
#
# --prefix DIR     where to install: DIR/bin/plait and DIR/share (default ~/.local)
# --signers FILE   check the signature of the sums, too: FILE has the line `plait KEY` with the key of who publishes
set -eu

{ # A script that is cut off on its way does nothing.
mirror=${PLAIT_MIRROR:-}
prefix=${HOME:-}/.local
signers=

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

usage() {
  echo "install.sh: $*" >&2
  echo "usage: PLAIT_MIRROR=ADDRESS sh install.sh [--prefix DIR] [--signers FILE]" >&2
  exit 2
}

while [ $# -gt 0 ]; do
  case $1 in
    --prefix | --signers) [ $# -ge 2 ] && [ -n "$2" ] || usage "$1 wants a value" ;;
    *) usage "unknown argument $1" ;;
  esac
  case $1 in
    --prefix) prefix=$2 ;;
    --signers) signers=$2 ;;
  esac
  shift 2
done
[ -n "$mirror" ] || usage "set PLAIT_MIRROR to the address of a release"
case $prefix in
  /*) ;;
  *) prefix=$PWD/$prefix ;;
esac

case $(uname -s) in
  Linux) system=linux ;;
  Darwin) system=darwin ;;
  *) fail "there are binaries for Linux and macOS, not for $(uname -s)" ;;
esac
case $(uname -m) in
  x86_64 | amd64) processor=amd64 ;;
  aarch64 | arm64) processor=arm64 ;;
  *) fail "there are binaries for amd64 and arm64, not for $(uname -m)" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

# get FILE copies a file of the mirror into $work.
get() {
  case $mirror in
    /*) cp "$mirror/$1" "$work/$1" ;;
    *)
      if command -v curl >/dev/null; then
        curl -fsSL --proto '=https,http' -o "$work/$1" "$mirror/$1"
      elif command -v wget >/dev/null; then
        wget -q -O "$work/$1" "$mirror/$1"
      else
        fail "curl or wget is needed"
      fi
      ;;
  esac || fail "cannot get $mirror/$1"
}

get SHA256SUMS
if [ -n "$signers" ]; then
  command -v ssh-keygen >/dev/null || fail "ssh-keygen is needed to check the signature"
  get SHA256SUMS.sig
  ssh-keygen -Y verify -f "$signers" -I plait -n file -s "$work/SHA256SUMS.sig" <"$work/SHA256SUMS" >/dev/null ||
    fail "the signature of SHA256SUMS is not by a key in $signers; nothing was installed"
fi

archive=$(sed -n "s/^[0-9a-f]\{64\}  \(plait-v[0-9A-Za-z.-]*-$system-$processor\)\.tar\.gz\$/\1/p" "$work/SHA256SUMS")
case $archive in
  '') fail "$mirror/SHA256SUMS names no archive for $system-$processor" ;;
  *[!0-9A-Za-z.-]*) fail "$mirror/SHA256SUMS names several archives for $system-$processor" ;;
esac
get "$archive.tar.gz"
want=$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive\.tar\.gz\$/\1/p" "$work/SHA256SUMS")
if command -v sha256sum >/dev/null; then
  have=$(sha256sum <"$work/$archive.tar.gz")
else
  have=$(shasum -a 256 <"$work/$archive.tar.gz")
fi
[ "${have%% *}" = "$want" ] ||
  fail "the SHA-256 of $archive.tar.gz is ${have%% *}, not $want; nothing was installed"

tar -xzf "$work/$archive.tar.gz" -C "$work" --no-same-owner
from=$work/$archive
share=$prefix/share
mkdir -p "$prefix/bin" "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/site-functions" \
  "$share/fish/vendor_completions.d"
cp "$from"/man/* "$share/man/man1/"
cp "$from/completions/plait" "$share/bash-completion/completions/plait"
cp "$from/completions/_plait" "$share/zsh/site-functions/_plait"
cp "$from/completions/plait.fish" "$share/fish/vendor_completions.d/plait.fish"
# A plait that runs keeps its file: the new one takes the name in one step.
cp "$from/plait" "$prefix/bin/.plait.new"
chmod 755 "$prefix/bin/.plait.new"
mv -f "$prefix/bin/.plait.new" "$prefix/bin/plait"

echo "Installed $("$prefix/bin/plait" --version) as $prefix/bin/plait, its SHA-256 checked${signers:+, and its signature}."
echo "Man pages and completions are in $share."
case :${PATH:-}: in
  *":$prefix/bin:"*) ;;
  *) echo "Put it on your PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
cat <<END
To uninstall it, which leaves the record alone:
  rm -f "$prefix/bin/plait" "$share"/man/man1/plait.1.gz "$share"/man/man1/plait-*.1.gz \\
    "$share/bash-completion/completions/plait" "$share/zsh/site-functions/_plait" \\
    "$share/fish/vendor_completions.d/plait.fish"
END
exit
}
