#!/usr/bin/env bash
# Installs nfltr for one user; needs no root.
#
#   scripts/install.sh              from this clone, or from an unpacked package
#   scripts/install.sh FILE.tgz     from a packed package (npm pack)
#   scripts/install.sh --uninstall  the same as `nfltr uninstall`: keys, memberships and results stay
#
# The program goes to ${XDG_DATA_HOME:-~/.local/share}/nfltr/app, the launcher to ~/.local/bin/nfltr. Each installation has
# a folder of its own and the launcher's link is swapped in one step: a node that runs from the previous one is not
# disturbed. Where the Node.js on PATH is missing or older than 22.18, the launcher gets its own.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
app="${XDG_DATA_HOME:-${HOME:?HOME is not set}/.local/share}/nfltr/app"
launcher_dir="$HOME/.local/bin"
launcher="$launcher_dir/nfltr"
mark='# Written by the installer of nfltr.'

say() { echo "install: $*" >&2; }
usage() {
  sed -n '4,6s/^# *//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}

is_ours() { [ -f "$launcher" ] && grep -qxF "$mark" "$launcher"; }

# Prints the Node.js that the launcher can rely on, or nothing. The toolchain's copy lies in a cache and does not count.
usable_node() {
  local found
  found="$(command -v node || true)"
  case "$found" in '' | */nfltr-toolchain/*) return 0 ;; esac
  if "$found" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 18) ? 0 : 1)' 2>/dev/null; then
    echo "$found"
  fi
}

# The program removes itself (nfltr uninstall), so that what belongs to it is written down in one place. Its launcher is not
# asked: what it relied on may be gone.
uninstall() {
  local program="$app/current/bin/nfltr.js" found
  if [ ! -f "$program" ]; then
    say "nothing is installed in $app"
    exit 0
  fi
  found="$(usable_node)"
  if [ -z "$found" ] && [ -x "$app/current/node/bin/node" ]; then found="$app/current/node/bin/node"; fi
  if [ -z "$found" ]; then
    source "$root/scripts/toolchain.sh"
    found="$(command -v node)"
  fi
  exec "$found" "$program" uninstall "$@"
}

tarball=''
locked=no
case "${1:-}" in
  --uninstall)
    shift
    uninstall "$@"
    ;;
  -*) usage ;;
  '') ;;
  *) tarball="$(realpath -- "$1")" && [ -f "$tarball" ] || usage ;;
esac
if [ $# -gt 1 ]; then usage; fi
if [ -e "$launcher" ] && ! is_ours; then
  say "$launcher exists and was not written by this script; move it away first"
  exit 1
fi

node="$(usable_node)"
source "$root/scripts/toolchain.sh"

work="$(mktemp -d "${TMPDIR:-/tmp}/nfltr-install.XXXXXX")"
trap 'rm -rf "$work" "${staged:-$work}"' EXIT

if [ -z "$tarball" ]; then
  cd "$root"
  if [ -d src ]; then
    source scripts/dependencies.sh
    npm run --silent build
    locked=yes
  fi
  npm pack --silent --pack-destination "$work" >/dev/null
  tarball="$(echo "$work"/*.tgz)"
fi

mkdir -p "$app" "$launcher_dir"
staged="$(mktemp -d "$app/new.XXXXXX")"
chmod 755 "$staged"
tar -xzf "$tarball" -C "$staged" --strip-components=1
if [ ! -f "$staged/bin/nfltr.js" ] || [ ! -d "$staged/dist" ]; then
  say "$tarball is not a package of nfltr: it has no bin/nfltr.js or no dist/"
  exit 1
fi
cd "$staged"
# devEngines speaks to developers; npm would apply it here too.
node -e '
  const { readFileSync, writeFileSync } = require("node:fs")
  const { devEngines, ...rest } = JSON.parse(readFileSync("package.json", "utf8"))
  writeFileSync("package.json", JSON.stringify(rest, null, 2))
'
if [ "$locked" = yes ]; then
  # From a clone: exactly the versions that were tested, also of indirect dependencies.
  cp "$root/package-lock.json" .
  cp "$root/.npmrc" .
  npm ci --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error >&2
else
  npm install --omit=dev --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error >&2
fi

if [ -z "$node" ]; then
  mkdir -p "$staged/node/bin"
  cp "$(command -v node)" "$staged/node/bin/node"
  node="$app/current/node/bin/node"
  say 'the launcher uses a Node.js of its own'
fi

version="$(sed -n 's/^ *"version": "\(.*\)",*$/\1/p' package.json | head -n 1)"
cd /
final="$app/$version-$(date -u +%Y%m%dT%H%M%S)-$$"
mv -T "$staged" "$final" 2>/dev/null || mv "$staged" "$final"
previous="$(readlink "$app/current" || true)"
ln -s "$(basename "$final")" "$app/current.$$"
mv -fT "$app/current.$$" "$app/current" 2>/dev/null || { rm -f "$app/current" && mv "$app/current.$$" "$app/current"; }
for old in "$app"/*/; do
  old="$(basename "$old")"
  case "$old" in current | "$(basename "$final")" | "$previous") ;; *) rm -rf "${app:?}/$old" ;; esac
done

quoted() { printf "'%s'" "${1//\'/\'\\\'\'}"; }
new_launcher="$launcher.$$"
cat >"$new_launcher" <<LAUNCHER
#!/bin/sh
$mark
node=$(quoted "$node")
if [ ! -x "\$node" ]; then
  echo "nfltr: its Node.js (\$node) is gone; run the installer again" >&2
  exit 1
fi
exec "\$node" $(quoted "$app/current/bin/nfltr.js") "\$@"
LAUNCHER
chmod 755 "$new_launcher"
mv -f "$new_launcher" "$launcher"

say "installed nfltr $version: $launcher"
case ":$PATH:" in
  *":$launcher_dir:"*) ;;
  *)
    say 'add this line to the profile of your shell:'
    echo "export PATH=\"$launcher_dir:\$PATH\""
    ;;
esac
