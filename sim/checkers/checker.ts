import type { ControlMessage, SessionFrame } from '../../src/core/messages.ts'
import type { Link, PeerFacts } from '../../src/ports/peers.ts'
import type { DecodedWork } from '../../src/runtime/session-codec.ts'
import type { MemoryDisk } from '../../src/store/memory-disk.ts'
import type { Scene } from '../scene.ts'

/** A frame at the moment at which a process lets it out. */
export interface SentFrame {
  readonly side: 'hub' | 'node'
  /** The name of the sender's process and of its present run. */
  readonly process: string
  readonly life: string
  readonly disk: MemoryDisk
  readonly to: PeerFacts
  readonly hubId: string
  readonly nodeId: string
  /** What the sender calls the other side in its store. */
  readonly remote: string
  readonly link: Link
  readonly frame: SessionFrame | { readonly type: 'unknown' }
  readonly control?: ControlMessage
  /** With the last part of a message: its number, its bytes and what they say. */
  readonly message?: {
    readonly no: number
    readonly body: Uint8Array
    readonly isReplaced: boolean
    readonly work: DecodedWork
  }
}

/** One promise, watched over a whole run. A checker knows nothing of how the promise is kept. */
export interface Checker {
  readonly name: string
  onFrame?(sent: SentFrame, fail: Fail): void
  /** After everything healed, ended and was read. */
  atEnd?(scene: Scene, fail: Fail): void
}

export type Fail = (message: string) => void
