import type { SeededRandom } from './random.ts'

/** What each seed may draw. */
export const drawnFaults = [
  'crash',
  'crash between two effects',
  'hub taken over',
  'node down for long',
  'keeper killed while its node is down',
  'broken connection',
  'vanished connection',
  'broken stream',
  'clog one way',
  'clog both ways',
  'machine cut off',
  'links clogged one by one',
  'slow disk',
  'disk error',
  'disk full',
  'keeper killed',
  'power cut',
  'session killed',
  'session killed between two effects',
  'frozen process',
  'machine asleep',
  'wall clock set',
] as const

/** What only a scenario asks for: after these not every promise can hold, and the scenario says which do not. */
export const askedFaults = ['store put back', 'disk put back', 'store lost'] as const

export const faultKinds = [...drawnFaults, ...askedFaults] as const
export type FaultKind = (typeof faultKinds)[number]
export type FaultWeights = Readonly<Record<FaultKind, number>>

/** What goes wrong in one run, and how often. Each seed draws its own: a world with few kinds of faults goes deeper. */
export interface FaultMix {
  readonly weights: FaultWeights
  /** Mean time between two faults, in milliseconds. */
  readonly everyMs: number
  /** How long a sync of a disk in good order takes at most, in milliseconds: the window in which a crash forgets. */
  readonly syncMaxMs: number
  readonly latencyMs: number
  readonly jitterMs: number
  readonly cancelChance: number
  readonly isBulky: boolean
  readonly programCrashChance: number
  /** How likely a project is to ask that an agent counts as lost after a short silence of its machine. */
  readonly impatience: number
}

/** Faults that end much at once are drawn more seldom than the others. */
const rarity: Partial<FaultWeights> = {
  'power cut': 1 / 3,
  'disk error': 1 / 3,
  'disk full': 1 / 4,
  'machine asleep': 1 / 2,
  'node down for long': 1 / 2,
}

/** @param asked - weights that a scenario asks for instead of what the seed draws */
export function drawMix(random: SeededRandom, asked?: Partial<FaultWeights>): FaultMix {
  const none = Object.fromEntries(faultKinds.map((kind) => [kind, 0])) as Record<FaultKind, number>
  const drawn = Object.fromEntries(
    drawnFaults.map((kind) => [kind, random.chance(0.45) ? (0.2 + random.next()) * (rarity[kind] ?? 1) : 0]),
  )
  return {
    weights: { ...none, ...(asked ?? drawn) },
    everyMs: random.int(300, 4_000),
    syncMaxMs: random.pick([3, 3, 30, 120]),
    latencyMs: random.pick([0.1, 2, 20, 80, 200]) * (0.5 + random.next()),
    jitterMs: random.pick([0.1, 5, 50, 200]) * random.next(),
    cancelChance: random.chance(0.5) ? random.next() * 0.3 : 0,
    isBulky: random.chance(0.25),
    programCrashChance: random.chance(0.5) ? random.next() * 0.2 : 0,
    impatience: random.chance(0.35) ? random.next() : 0,
  }
}
