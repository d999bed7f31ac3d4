/**
 * `npm run fuzz -- --n 100000 --seed S`: gives wrong frames, messages, invites, certificates, tool calls and command lines
 * to the production decoders and to peers that run in this process, and holds them to three promises: nothing breaks, nothing
 * grows, and what is refused is refused with a type. All inputs follow from the seed. `--only KIND` has all inputs of one
 * kind, `--figures` writes docs/reference/figures/fuzz.json. See docs/internals/testing.md.
 */
import process from 'node:process'
import { parseArgs } from 'node:util'
import { originOf, writeFigures } from '../../sim/figures.ts'
import { growthMaxBytes, type Report, runCampaign } from './campaign.ts'

const origin = originOf()
const { values } = parseArgs({
  options: {
    n: { type: 'string', default: '10000' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    figures: { type: 'boolean', default: false },
  },
})

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}

function whole(name: string, text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new TypeError(`--${name} takes a whole number`)
  return Number(text)
}

function print(report: Report): void {
  for (const [kind, verdicts] of Object.entries(report.counts)) {
    const sum = Object.values(verdicts).reduce((total, count) => total + count, 0)
    const words = Object.entries(verdicts).map(([verdict, count]) => `${verdict} ${count}`)
    say(`${kind.padEnd(20)} ${String(sum).padStart(7)}  ${words.join(', ')}`)
  }
  for (const { kind, number, input, what } of report.failures) {
    say(`WRONG: input ${number}, a ${kind}: ${what}\n  ${input.slice(0, 2_000)}`)
  }
}

function writeDown(report: Report): void {
  writeFigures('fuzz', origin, {
    seed: Number(values.seed),
    inputs: report.inputs,
    failed: report.failures.length,
    heap_bytes: report.heapBytes,
    grown_bytes: report.grownBytes,
    counts: report.counts,
  })
}

const collectGarbage = globalThis.gc
if (collectGarbage === undefined) throw new Error('run it as npm run fuzz does, with --expose-gc')
const started = performance.now()
const report = await runCampaign(
  {
    inputs: whole('n', values.n),
    seed: whole('seed', values.seed),
    ...(values.only === undefined ? {} : { only: values.only }),
    collectGarbage: () => void collectGarbage(),
  },
  (line) => say(line),
)
const seconds = Math.round((performance.now() - started) / 1_000)
print(report)
const hasGrown = report.grownBytes > growthMaxBytes
if (hasGrown) say(`WRONG: grew by ${report.grownBytes} bytes, more than ${growthMaxBytes}`)
if (values.figures) writeDown(report)
say(`${report.inputs} inputs in ${seconds} s: ${report.failures.length} failed; grew by ${report.grownBytes} bytes`)
process.exit(report.failures.length > 0 || hasGrown ? 1 : 0)
