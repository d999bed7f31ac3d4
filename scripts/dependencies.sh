# Installs the locked dependencies where they are missing or differ from package-lock.json. Source it after
# toolchain.sh, from the root of the clone. Compares what is installed, package by package, so it costs nothing when all
# is there; never runs a package's install scripts.

nfltr_dependencies() {
  if node --input-type=commonjs -e '
    const { readFileSync } = require("node:fs")
    const read = (file) => JSON.parse(readFileSync(file, "utf8")).packages
    const wanted = read("package-lock.json")
    const found = read("node_modules/.package-lock.json")
    const same = (path) => found[path]?.version === wanted[path].version && found[path]?.integrity === wanted[path].integrity
    // Optional packages of other platforms are locked but never installed.
    process.exitCode = Object.keys(wanted).every((path) => path === "" || wanted[path].optional || same(path)) ? 0 : 1
  ' 2>/dev/null; then
    return 0
  fi
  echo 'dependencies: installing from package-lock.json' >&2
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
}
nfltr_dependencies
unset -f nfltr_dependencies
