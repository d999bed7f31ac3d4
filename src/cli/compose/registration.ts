import type { MeshHost } from '../../mesh/peers.ts'
import type { Held, Home, RunningProcess } from '../../ports/home.ts'

/**
 * Tells the other processes of a home where this one listens, also after the machine's addresses changed: what `mesh show` says and
 * what goes into invites is read from there.
 */
export async function registerListening(
  home: Home,
  of: { readonly mesh: MeshHost; readonly facts: Omit<RunningProcess, 'listen'> },
): Promise<Held> {
  const register = (): Promise<Held> => home.running.register({ ...of.facts, listen: of.mesh.listenAddresses() })
  const held = await register()
  let tail: Promise<unknown> = Promise.resolve()
  const unwatch = of.mesh.watchAddresses(() => {
    // A disk that refuses shows itself elsewhere; the next change writes again.
    tail = tail.then(register).catch(() => undefined)
  })
  return {
    release: async () => {
      unwatch()
      await tail
      await held.release()
    },
  }
}
