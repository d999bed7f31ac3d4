import process from 'node:process'
import { SeededRandom } from '../../sim/random.ts'
import { calls } from './calls.ts'
import { commandLines } from './command-line.ts'
import { decoders } from './decoders.ts'
import { meshes } from './meshes.ts'
import { peers } from './peers.ts'
import { sessions } from './sessions.ts'
import { Crash, type OpenTarget, type Target } from './target.ts'

export const targets: readonly Target[] = [...decoders, ...sessions, ...peers, ...calls, ...commandLines, ...meshes]

export interface CampaignOptions {
  readonly inputs: number
  readonly seed: number
  /** Of which kind alone. */
  readonly only?: string
  /** What takes the inputs; all that there is, unless given. */
  readonly targets?: readonly Target[]
  /** Collects garbage, so that what is measured then is held. */
  readonly collectGarbage: () => void
}

export interface Failure {
  readonly kind: string
  readonly number: number
  readonly input: string
  readonly what: string
}

export interface Report {
  readonly inputs: number
  /** By kind, by verdict. */
  readonly counts: Readonly<Record<string, Readonly<Record<string, number>>>>
  readonly failures: readonly Failure[]
  /** Bytes held by this process after each tenth of the campaign. */
  readonly heapBytes: readonly number[]
  readonly grownBytes: number
}

/** The code that runs is compiled, and pools are filled, within the first tenths. */
const warmTenths = 3
/** Whoever takes longer for one input hangs. */
const verdictMs = 60_000
/** What may come and go between two collections. What leaks with each input is far above it by the end. */
export const growthMaxBytes: number = 12 * 1024 * 1024

/** Gives every kind of target its share of inputs, in turn, so that all of them live through the whole campaign. */
export async function runCampaign(options: CampaignOptions, note: (line: string) => void): Promise<Report> {
  const chosen = (options.targets ?? targets).filter(({ kind }) => options.only === undefined || kind === options.only)
  if (chosen.length === 0) throw new TypeError(`there is no kind ${options.only}`)
  const plan = planOf(chosen, options)
  const loose: unknown[] = []
  const seize = (reason: unknown): void => void loose.push(reason)
  process.on('unhandledRejection', seize)
  process.on('uncaughtException', seize)
  const open = new Map<string, OpenTarget>()
  for (const { kind, open: build } of chosen)
    open.set(kind, await build(new SeededRandom(options.seed, `pool of ${kind}`)))
  const counts = new Map<string, Map<string, number>>()
  const failures: Failure[] = []
  const heapBytes: number[] = []
  for (const [number, kind] of plan.entries()) {
    const verdict = await tryOne(open, { kind, number, seed: options.seed }, failures)
    for (const reason of loose.splice(0))
      failures.push({ kind, number, input: '', what: `nobody caught ${textOf(reason)}` })
    const byVerdict = counts.get(kind) ?? new Map<string, number>()
    byVerdict.set(verdict, (byVerdict.get(verdict) ?? 0) + 1)
    counts.set(kind, byVerdict)
    if (failures.length >= 20) break
    if (Math.floor(((number + 1) * 10) / plan.length) > heapBytes.length) {
      options.collectGarbage()
      heapBytes.push(process.memoryUsage().heapUsed)
      note(`${number + 1} inputs, ${((heapBytes.at(-1) ?? 0) / 1024 / 1024).toFixed(1)} MiB held`)
    }
  }
  for (const target of open.values()) await target.close()
  process.off('unhandledRejection', seize)
  process.off('uncaughtException', seize)
  const grownBytes = (heapBytes.at(-1) ?? 0) - (heapBytes[warmTenths - 1] ?? 0)
  const sorted = <T>(map: ReadonlyMap<string, T>): [string, T][] => [...map].sort(([a], [b]) => (a < b ? -1 : 1))
  return {
    inputs: plan.length,
    counts: Object.fromEntries(sorted(counts).map(([kind, verdicts]) => [kind, Object.fromEntries(sorted(verdicts))])),
    failures,
    heapBytes,
    grownBytes,
  }
}

async function tryOne(
  open: ReadonlyMap<string, OpenTarget>,
  { kind, number, seed }: { readonly kind: string; readonly number: number; readonly seed: number },
  failures: Failure[],
): Promise<string> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`no verdict within ${verdictMs / 1_000} s`)), verdictMs)
  try {
    const verdict = open.get(kind)?.try(new SeededRandom(seed, `${kind} ${number}`)) ?? Promise.resolve('none')
    return await Promise.race([verdict, late.promise])
  } catch (thrown) {
    const input = thrown instanceof Crash ? thrown.input : ''
    failures.push({ kind, number, input, what: textOf(thrown) })
    return 'WRONG'
  } finally {
    clearTimeout(timer)
  }
}

/** Which kind each input is of: as many as its share, spread evenly. */
function planOf(chosen: readonly Target[], options: CampaignOptions): readonly string[] {
  const sum = chosen.reduce((total, { share }) => total + share, 0)
  const random = new SeededRandom(options.seed, 'plan')
  const weights = Object.fromEntries(chosen.map(({ kind, share }) => [kind, share / sum]))
  return Array.from({ length: options.inputs }, () => random.weighted(weights) ?? chosen[0]?.kind ?? '')
}

function textOf(thrown: unknown): string {
  return thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)
}
