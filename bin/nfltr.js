#!/usr/bin/env node
// Written so that any Node of the last ten years can read it: an old one must get this sentence, not a syntax error from
// a module that it loaded too early. Keep `var`, and keep every import below the check.
var needed = [22, 18]
var found = process.versions.node.split('.').map(Number)

if (found[0] < needed[0] || (found[0] === needed[0] && found[1] < needed[1])) {
  console.error(
    'nfltr needs Node.js ' +
      needed.join('.') +
      ' or newer; this is ' +
      process.version +
      ' (' +
      process.execPath +
      ').',
  )
  console.error('Install a newer Node.js, or use scripts/install.sh, which brings its own.')
  process.exit(2)
}

// A clone runs its source as it is, so that an older build lying in dist/ is never run by mistake; the published
// package has dist/ only.
var source = '../src/cli/main.ts'
import(source).catch((error) => {
  var missing = error && error.code === 'ERR_MODULE_NOT_FOUND' && String(error.url).slice(-16) === '/src/cli/main.ts'
  if (!missing) throw error
  return import('../dist/cli/main.js')
})
