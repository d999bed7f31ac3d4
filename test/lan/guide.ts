import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Commands of one block of a guide, and the machine that its heading names. */
export interface Step {
  readonly heading: string
  readonly machines: readonly ('laptop' | 'worker')[]
  readonly commands: readonly string[]
}

/**
 * The steps of docs/guides/lan.md: every `sh` block, under the heading that says where.
 *
 * @throws {Error} for a block whose heading names no machine
 */
export function stepsOfGuide(): readonly Step[] {
  const text = readFileSync(join(import.meta.dirname, '../../docs/guides/lan.md'), 'utf8')
  const steps: Step[] = []
  let heading = ''
  for (const [, title, block] of text.matchAll(/^## (.*)$|^```sh\n([\s\S]*?)^```$/gm)) {
    if (title !== undefined) heading = title
    if (block === undefined) continue
    steps.push({ heading, machines: machinesIn(heading), commands: block.trim().split('\n') })
  }
  return steps
}

function machinesIn(heading: string): Step['machines'] {
  if (heading.endsWith('on both')) return ['laptop', 'worker']
  if (heading.endsWith('on the laptop')) return ['laptop']
  if (heading.endsWith('on the worker')) return ['worker']
  throw new Error(`the heading "${heading}" does not say on which machine`)
}
