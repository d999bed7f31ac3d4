import type { ContactState } from './lease.ts'
import type { Capacity, Filters, NodeCard, Reason } from './model.ts'

/** One node as placement sees it. */
export interface NodeView {
  readonly peerId: string
  readonly name: string
  readonly state: ContactState
  /** Whether new work may go there now: online, caught up and not quiet. */
  readonly isReady: boolean
  /** What it last said of itself; absent for a member that this hub never spoke to. */
  readonly card?: NodeCard
  readonly capacity?: Capacity
  /** Slots that this hub has asked for and the node has not accounted for yet. */
  readonly pending: number
}

export interface Decline {
  readonly peerId: string
  readonly machine: string
  readonly reason: Reason
  readonly message: string
  readonly isPermanent: boolean
}

export interface Wish {
  readonly filters: Filters
  /** The machine that the name meant when the spawn was accepted: a name never moves a spawn elsewhere (rule 14). */
  readonly boundTo?: string
  /** What nodes answered to this task so far; the latest of each counts. */
  readonly declines: readonly Decline[]
  /** Nodes that declined for the moment and are not to be asked again yet. */
  readonly resting: ReadonlySet<string>
}

export type Placement =
  | { readonly type: 'place'; readonly peerId: string; readonly name: string }
  /** Something may still come: a slot, a machine that is away, or one that has yet to join. */
  | { readonly type: 'wait' }
  | { readonly type: 'reject'; readonly reason: Reason; readonly declines: readonly Decline[] }

/**
 * Chooses where a task goes: hard filters first, then a free slot. Among several the one with the most free slots, then
 * the first by name, so that equal worlds choose equally.
 */
export function place(wish: Wish, nodes: readonly NodeView[]): Placement {
  const holder = nodes.find((node) => node.name === wish.filters.machine)
  if (wish.boundTo !== undefined && holder !== undefined && holder.peerId !== wish.boundTo) {
    const message = `The name ${holder.name} belongs to another machine now.`
    const decline = { peerId: holder.peerId, machine: holder.name, message, isPermanent: true }
    return { type: 'reject', reason: 'machine_changed', declines: [{ ...decline, reason: 'machine_changed' }] }
  }
  const candidates = matching(wish, nodes)
  const open = candidates.filter((node) => permanentDecline(wish, node) === undefined)
  if (candidates.length > 0 && open.length === 0) return rejectAll(wish, candidates)
  let best: NodeView | undefined
  for (const node of open) {
    if (!node.isReady || wish.resting.has(node.peerId) || freeSlots(node) === 0) continue
    if (best === undefined || isBefore(node, best)) best = node
  }
  return best === undefined ? { type: 'wait' } : { type: 'place', peerId: best.peerId, name: best.name }
}

/** Of two nodes with a free slot the one that is asked first. */
function isBefore(a: NodeView, b: NodeView): boolean {
  const [freeA, freeB] = [freeSlots(a), freeSlots(b)]
  return freeA === freeB ? a.name < b.name : freeA > freeB
}

/** Nodes that fit by machine and labels, whatever they can or want to do: what `facts.matching_nodes` names. */
export function matching(wish: Pick<Wish, 'filters' | 'boundTo'>, nodes: readonly NodeView[]): readonly NodeView[] {
  const { machine } = wish.filters
  const labels = Object.entries(wish.filters.labels)
  if (wish.boundTo === undefined && machine === undefined && labels.length === 0) return nodes
  return nodes.filter((node) => {
    if (wish.boundTo !== undefined) return node.peerId === wish.boundTo
    if (machine !== undefined && node.name !== machine) return false
    // A machine that was never heard of may turn out to fit: it is waited for.
    if (node.card === undefined) return true
    const own = node.card.labels
    return labels.every(([key, value]) => Object.hasOwn(own, key) && own[key] === value)
  })
}

export function freeSlots(node: NodeView): number {
  if (node.card?.unavailable !== undefined) return 0
  return Math.max(0, (node.capacity?.free ?? 0) - node.pending)
}

/** Why this node will never take the task as things are, or undefined while it might. */
function permanentDecline(wish: Wish, node: NodeView): Decline | undefined {
  const own = wish.declines.findLast((decline) => decline.peerId === node.peerId)
  if (own?.isPermanent === true) return own
  const { card } = node
  if (card === undefined) return undefined
  const decline = { peerId: node.peerId, machine: node.name, isPermanent: true }
  if (card.unavailable !== undefined) return { ...decline, ...card.unavailable }
  const missing = wish.filters.requires.find((capability) => !card.capabilities.includes(capability))
  if (missing !== undefined) {
    return { ...decline, reason: 'declined', message: `It does not declare the capability ${missing}.` }
  }
  const offer = wish.filters.dir?.split('/')[0]
  if (offer !== undefined && !card.offers.some((candidate) => candidate.name === offer)) {
    return { ...decline, reason: 'dir_not_offered', message: `It does not offer a folder named ${offer}.` }
  }
  return undefined
}

function rejectAll(wish: Wish, candidates: readonly NodeView[]): Placement {
  const declines = candidates.flatMap((node) => permanentDecline(wish, node) ?? [])
  return { type: 'reject', reason: commonReason(declines), declines }
}

/** How a task ends that found no place within its time. */
export function giveUp(wish: Wish, nodes: readonly NodeView[]): { reason: Reason; declines: readonly Decline[] } {
  const candidates = matching(wish, nodes)
  const declines = candidates.flatMap(
    (node) => permanentDecline(wish, node) ?? wish.declines.findLast((decline) => decline.peerId === node.peerId) ?? [],
  )
  const everyOneDeclined = candidates.length > 0 && declines.length === candidates.length
  return { reason: everyOneDeclined ? commonReason(declines) : 'no_machine', declines }
}

/** The one reason that all gave, or `declined` where they differ: each is named then. */
function commonReason(declines: readonly Decline[]): Reason {
  const [first] = declines
  return first !== undefined && declines.every((decline) => decline.reason === first.reason) ? first.reason : 'declined'
}

/** The known names that a mistyped one most likely meant, nearest first, at most three. */
export function nearestNames(name: string, known: readonly string[]): readonly string[] {
  return known
    .map((candidate) => ({ candidate, distance: editDistance(name, candidate) }))
    .sort((a, b) => a.distance - b.distance || order(a.candidate, b.candidate))
    .slice(0, 3)
    .map(({ candidate }) => candidate)
}

/** Levenshtein's distance: the fewest characters to insert, delete or replace. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
