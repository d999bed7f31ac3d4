/** Fails when less than 95 % of the lines of src/core were run by the tests; reads what vitest --coverage has written. */
import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import process from 'node:process'

/** In percent. The core decides what is lost and what is counted; a line of it that no test ran is unknown. */
const wanted = 95

interface Lines {
  readonly lines: { readonly total: number; readonly covered: number }
}

const root = join(import.meta.dirname, '..')
const summary = JSON.parse(readFileSync(join(root, 'reports/coverage/coverage-summary.json'), 'utf8')) as Record<
  string,
  Lines
>
let total = 0
let covered = 0

for (const [file, { lines }] of Object.entries(summary)) {
  const path = relative(root, file)
  if (!path.startsWith('src/core/')) continue
  total += lines.total
  covered += lines.covered
  if (lines.covered < lines.total) console.log(`${path}: ${lines.covered} of ${lines.total} lines`)
}

const percent = total === 0 ? 0 : (100 * covered) / total
console.log(`src/core: ${percent.toFixed(1)} % of ${total} lines, ${wanted} % wanted`)
if (percent < wanted) process.exitCode = 1
