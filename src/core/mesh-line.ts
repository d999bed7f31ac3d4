/** One key of a mesh names the key that signs in its place. */
export interface NamedSuccessor {
  readonly predecessorPeerId: string
  readonly successorPeerId: string
}

/** The keys of a mesh, one after the other (rule 17). */
export interface MeshLine {
  /** PeerId of the first key, which is the mesh's id for good. */
  readonly meshId: string
  /**
   * Every key that ever was the mesh's or was named as such, the first one first. What they signed can be read; only
   * `current` grants anything.
   */
  readonly keys: readonly string[]
  /** The key that signs now; `undefined` where the line is disputed. */
  readonly current: string | undefined
  /** A key that named two different successors, or one that was the mesh's before: nothing counts from there on. */
  readonly dispute?: { readonly keyPeerId: string; readonly successors: readonly string[] }
}

/**
 * Follows the keys of a mesh from the first one. The order in which successions became known makes no difference, so that
 * everybody who knows the same ones comes to the same end.
 */
export function meshLine(meshId: string, named: readonly NamedSuccessor[]): MeshLine {
  const successorsOf = (key: string): readonly string[] => [
    ...new Set(named.flatMap((one) => (one.predecessorPeerId === key ? [one.successorPeerId] : []))),
  ]
  const keys = reachable(meshId, successorsOf)
  const walked = new Set<string>()
  for (let key = meshId; ; ) {
    walked.add(key)
    const successors = successorsOf(key)
    const [next] = successors
    if (next === undefined) return { meshId, keys, current: key }
    if (successors.length > 1 || walked.has(next)) {
      return { meshId, keys, current: undefined, dispute: { keyPeerId: key, successors: [...successors].sort() } }
    }
    key = next
  }
}

/** The mesh keys that count: one, or none. */
export function countingKeys({ current }: MeshLine): readonly string[] {
  return current === undefined ? [] : [current]
}

function reachable(meshId: string, successorsOf: (key: string) => readonly string[]): readonly string[] {
  const keys = new Set([meshId])
  // A set may grow while it is gone through: what is added is visited too.
  for (const key of keys) for (const successor of successorsOf(key)) keys.add(successor)
  return [...keys]
}
