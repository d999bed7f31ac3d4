import type { NodeCard } from '../../core/model.ts'
import type { MeshHost } from '../../mesh/peers.ts'
import type { Node } from '../../node/node.ts'
import { freeBytes } from '../../platform/disk.ts'
import type { Home } from '../../ports/home.ts'
import type { Store } from '../../ports/store.ts'
import { instant } from './instant.ts'
import { refusedHellos } from './refused-hellos.ts'

/** Since when each peer is connected. */
export interface LinkLog {
  since(peerId: string): number | undefined
}

/** Below this a disk is called low; below the second a node takes no new work. In bytes. */
const diskLowBytes = 1024 * 1024 * 1024
const diskFullBytes = 64 * 1024 * 1024

/** `node status`: what the node says of itself, with its links and its disk. */
export async function nodeStatusDocument(of: {
  readonly node: Node
  readonly mesh: MeshHost
  readonly links: LinkLog
  readonly home: Home
  readonly store: Pick<Store, 'condition'>
  /** Machines whose hubs may use the node; absent: all. */
  readonly allowHubs: readonly string[] | undefined
}): Promise<Record<string, unknown>> {
  const { node, mesh, links, home } = of
  const status = await node.status()
  const hubs = (status['hubs'] ?? []) as readonly {
    readonly outbox: { readonly entries: number; readonly bytes: number }
  }[]
  const free = await freeBytes(home.paths.node)
  return {
    ...status,
    state: node.isDraining ? 'draining' : 'ready',
    monitors: [],
    links: mesh.connected().map((peer) => {
      const sinceMs = links.since(peer.peerId)
      return {
        peer: peer.peerId,
        name: peer.name,
        kind: peer.kind,
        path: peer.path,
        ...(sinceMs === undefined ? {} : { since: instant(sinceMs) }),
        ...(peer.rttMs === undefined ? {} : { rtt_ms: peer.rttMs }),
      }
    }),
    lan: mesh.lanStatus(),
    outbox: {
      entries: hubs.reduce((sum, { outbox }) => sum + outbox.entries, 0),
      bytes: hubs.reduce((sum, { outbox }) => sum + outbox.bytes, 0),
    },
    refused_hellos: refusedHellos(mesh.refusalNotices(), 'this_node'),
    disk: { free_bytes: free, state: free < diskFullBytes ? 'full' : free < diskLowBytes ? 'low' : 'ok' },
    store: of.store.condition,
    allows: allowsDocument(node.card, of.allowHubs),
    version: node.card.version,
  }
}

export function allowsDocument(card: NodeCard, hubs: readonly string[] | undefined): Record<string, unknown> {
  const { allTools, monitors, repos } = card.allows
  return { all_tools: allTools, monitors, repos, ...(hubs === undefined ? {} : { hubs }) }
}
