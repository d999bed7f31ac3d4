import type { PeerKind } from '../core/membership.ts'
import { type PrivateKey, peerIdOf } from '../identity/keys.ts'
import type { Clock } from '../ports/clock.ts'
import type { MeshFiles } from '../ports/home.ts'
import type { Lan } from '../ports/lan.ts'
import type { Random } from '../ports/random.ts'
import type { IssuerRole } from './join.ts'
import type { ProcessFacts, Standing } from './standing.ts'

export interface BorrowedKey {
  readonly key: PrivateKey
  readonly giveBack: () => Promise<void>
}

export interface MeshOptions {
  /** The transport key of this process: the machine's for a node and a joiner, a key of its own for all others. */
  readonly key: PrivateKey
  readonly kind: PeerKind
  readonly hubId?: string
  /** Absent for a machine that has yet to join: then nothing works but `join`. */
  readonly standing?: Standing
  readonly files: MeshFiles
  readonly clock: Clock
  readonly random: Random
  readonly softwareVersion: string
  /** Multiaddrs to listen on; absent: the port of the kind, or the next free one, on every interface. */
  readonly listen?: readonly string[]
  /** Addresses of peers to stay connected with, from `--peer`; with or without `/p2p/…`. */
  readonly peers?: readonly string[]
  /** How members on the local network are found; absent: they are not looked for, and not answered. */
  readonly lan?: Lan
  /** The system's interfaces, as a text that changes with them; absent: changes are found with more effort. */
  readonly interfaces?: () => string
  /** Makes this process's certificate anew before it runs out; not for a node, which has none. */
  readonly certify?: (nowMs: number) => Promise<Uint8Array>
  /**
   * Lends the machine's key, for as long as an issuer is asked for a membership; undefined while another process has it, which
   * then asks itself. For a process that lasts and is not the node.
   */
  readonly borrowMachineKey?: () => Promise<BorrowedKey | undefined>
  /** Set for the process that holds the issuer's lock: it answers joiners. */
  readonly issuer?: IssuerRole
  /** On a node: the highest epoch seen of a hub, told to that hub in hello (rule 7). */
  readonly highestEpochSeen?: (hubId: string) => number | undefined
}

/** What a process says of itself, with a name for this one start of it (rule 11). */
export function processFacts(options: MeshOptions): ProcessFacts {
  return {
    peerId: peerIdOf(options.key),
    kind: options.kind,
    ...(options.hubId === undefined ? {} : { hubId: options.hubId }),
    softwareVersion: options.softwareVersion,
    incarnation: Buffer.from(options.random.bytes(16)).toString('hex'),
  }
}
