import type { Clock } from '../ports/clock.ts'
import type { Store } from '../ports/store.ts'
import type { Engine } from '../runtime/engine.ts'
import type { Agents } from './agents.ts'
import type { Changes } from './changes.ts'
import type { Keys } from './keys.ts'
import type { Mailbox } from './mailbox.ts'
import type { Nodes } from './nodes.ts'
import type { Placing } from './placing.ts'
import type { Waiting } from './waiting.ts'

/** What this hub is, and a hash: the facts that its process supplies. */
export interface HubFacts {
  readonly hubId: string
  /** The folder that this hub serves. */
  readonly project: string
  readonly pid: number
  readonly host: string
  /** SHA-256 over the text's UTF-8 bytes, as hex. */
  readonly sha256: (text: string) => string
}

/** What the tools work with. */
export interface HubWorld {
  readonly engine: Engine
  readonly store: Store
  readonly clock: Clock
  readonly facts: HubFacts
  readonly changes: Changes
  readonly agents: Agents
  readonly mailbox: Mailbox
  readonly nodes: Nodes
  readonly placing: Placing
  readonly waiting: Waiting
  readonly keys: Keys
  /** An id that nobody can guess: the prefix and 32 hex digits. */
  readonly randomId: (prefix: string) => string
  /** Whether a session key is the one that holds the hub. */
  readonly isHolder: (sessionKey: string) => boolean
  /** Resolves at once, but on a hub that was just put back: then once it knows these agents, or its nodes have told all. */
  readonly toldOf: (agentIds: readonly string[]) => Promise<void>
  /** Resolves once the nodes that were connected at the start are caught up, or a short while after it. */
  readonly settledStart: () => Promise<void>
}
