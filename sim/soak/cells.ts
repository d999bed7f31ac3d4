import { SeededRandom } from '../random.ts'

/** A process that can be killed. `agent` is the agent program, the command of a keeper. */
export const processes = ['node', 'keeper', 'hub', 'adapter', 'agent'] as const
export type ProcessKind = (typeof processes)[number]

/** What has happened last in the life of an agent, in order. */
export const phases = [
  'spawn',
  'claimed',
  'launched',
  'running',
  'result',
  'ended',
  'accepted',
  'offered',
  'written',
  'confirmed',
] as const
export type Phase = (typeof phases)[number]

export interface Kill {
  readonly process: ProcessKind
  readonly phase: Phase
}

/**
 * How an agent's life is disturbed. `held`: the world is held in a phase while the process is killed. `delays`: nothing is
 * held, and the kills come at drawn times.
 */
export type TrialPlan = {
  readonly number: number
  readonly seed: number
  /** The answer does not fit into the pipe between adapter and session. */
  readonly isLong: boolean
} & (
  | { readonly kind: 'held'; readonly kills: readonly Kill[] }
  | { readonly kind: 'delays'; readonly kills: readonly { readonly process: ProcessKind; readonly afterMs: number }[] }
)

/** Keeper and program exist from the launch to the result; a keeper is started as soon as its attempt is claimed. */
const shortLived: Readonly<Partial<Record<ProcessKind, readonly Phase[]>>> = {
  keeper: ['claimed', 'launched', 'running', 'result'],
  agent: ['launched', 'running', 'result'],
}

export const cells: readonly Kill[] = processes.flatMap((process) =>
  (shortLived[process] ?? phases).map((phase) => ({ process, phase })),
)

export function cellName({ process, phase }: Kill): string {
  return `${process} ${phase}`
}

export function isFatal({ process }: { readonly process: ProcessKind }): boolean {
  return process === 'keeper' || process === 'agent'
}

/** How often each cell has to be hit by a campaign of at least {@link wholeCampaign} trials. */
export const cellMin = 5
export const wholeCampaign = 60

/** One trial in so many kills at drawn times. */
const delaysEvery = 10
const longestDelayMs = 1_500
const killsMin = 4
const killsMax = 6

/** What the trials of a campaign do: all of it follows from the seed, cells that were drawn least come first. */
export function planCampaign(trials: number, seed: number): readonly TrialPlan[] {
  const counts = new Map(cells.map((cell) => [cellName(cell), 0]))
  const target = Math.max(1, trials < wholeCampaign ? 1 : Math.floor((trials / wholeCampaign) * cellMin))
  const kinds = Array.from({ length: trials }, (_, index) =>
    index % delaysEvery === delaysEvery - 1 ? 'delays' : 'held',
  )
  let heldLeft = kinds.filter((kind) => kind === 'held').length
  return kinds.map((kind, index) => {
    const trialSeed = Math.imul(seed + 1, 1_000_003) + index
    const random = new SeededRandom(trialSeed, 'plan')
    const base = { number: index + 1, seed: trialSeed, isLong: random.chance(0.25) }
    if (kind === 'delays') return { ...base, kind, kills: drawDelays(random) }
    const missing = [...counts.values()].reduce((sum, count) => sum + Math.max(0, target - count), 0)
    const wanted = Math.min(killsMax, Math.max(killsMin, Math.ceil(missing / heldLeft)))
    heldLeft -= 1
    const kills = drawCells(random, counts, wanted)
    for (const kill of kills) counts.set(cellName(kill), (counts.get(cellName(kill)) ?? 0) + 1)
    return { ...base, kind: 'held', kills }
  })
}

/** A trial for a cell that its planned kills missed: a process may be gone before its turn comes. */
export function planTopUp(cell: Kill, options: { readonly number: number; readonly seed: number }): TrialPlan {
  const seed = Math.imul(options.seed + 1, 1_000_003) + options.number - 1
  return { number: options.number, seed, isLong: false, kind: 'held', kills: [cell] }
}

function drawDelays(random: SeededRandom): readonly { process: ProcessKind; afterMs: number }[] {
  return Array.from({ length: random.int(1, 3) }, () => ({
    process: random.pick(processes),
    afterMs: random.int(0, longestDelayMs),
  })).sort((a, b) => a.afterMs - b.afterMs)
}

function drawCells(random: SeededRandom, counts: ReadonlyMap<string, number>, wanted: number): readonly Kill[] {
  const order = cells
    .map((cell) => ({ cell, weight: (counts.get(cellName(cell)) ?? 0) + random.next() * 0.9 }))
    .sort((a, b) => a.weight - b.weight)
    .map(({ cell }) => cell)
  // Of each of these kinds a trial has room for one only, so nearly every trial has to have one.
  const [handing, last] = [order.find(isHanding), order.find((cell) => isFatal(cell) || cell.phase === 'result')]
  const chosen: Kill[] = []
  for (const cell of [last, handing, ...order]) {
    if (chosen.length === wanted) break
    if (cell !== undefined && chosen.every((other) => fitTogether(cell, other))) chosen.push(cell)
  }
  return chosen.sort((a, b) => phases.indexOf(a.phase) - phases.indexOf(b.phase))
}

/** Whether the result is on its way to the session. */
function isHanding({ phase }: Kill): boolean {
  return phase === 'offered' || phase === 'written' || phase === 'confirmed'
}

/** Whether both can happen in the life of one agent. */
function fitTogether(one: Kill, other: Kill): boolean {
  if (one.phase === other.phase) return false
  // The reply is given once: a reply that was cut off is never held a second time.
  if (isHanding(one) && isHanding(other)) return false
  // Without its keeper or its program the work goes no further: such a kill is the last before the end at the node.
  for (const [fatal, later] of [[one, other] as const, [other, one] as const]) {
    if (!isFatal(fatal)) continue
    const [from, at] = [phases.indexOf(fatal.phase), phases.indexOf(later.phase)]
    if (at > from && at <= phases.indexOf('result')) return false
  }
  return true
}
