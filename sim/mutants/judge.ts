/**
 * Runs seeds with whatever bug was planted around it, and prints as one JSON document which checks failed: `--seeds N` at
 * most, from 1 on, ending with the first that fails; with `--all` each to its end, so that every check has its say, and
 * ending with the `--failed N`th that fails.
 */
import { parseArgs } from 'node:util'
import { leaveOutStacks } from '../run-seed.ts'
import { simulate } from '../simulate.ts'

/** What seeds showed: by check, in how many of them it failed, and in which first. */
export interface Verdict {
  readonly seeds: number
  readonly failed: number
  readonly checks: Readonly<Record<string, { readonly seeds: number; readonly first: number }>>
}

leaveOutStacks()

const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    all: { type: 'boolean', default: false },
    failed: { type: 'string', default: '1' },
  },
})
const checks = new Map<string, { seeds: number; first: number }>()
let [seeds, failed] = [0, 0]
while (seeds < Number(values.seeds) && failed < Number(values.failed)) {
  seeds += 1
  const { violations } = await simulate(seeds, { judgesAll: values.all })
  if (violations.length > 0) failed += 1
  for (const name of new Set(violations.map(({ checker }) => checker))) {
    const found = checks.get(name) ?? { seeds: 0, first: seeds }
    checks.set(name, { ...found, seeds: found.seeds + 1 })
  }
}
const verdict: Verdict = { seeds, failed, checks: Object.fromEntries(checks) }
console.log(JSON.stringify(verdict))
// A bug may have left something waiting that never comes.
process.exit(0)
