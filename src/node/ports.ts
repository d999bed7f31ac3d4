import type { NodeCard } from '../core/model.ts'
import type { ReceiptBody, StoredReceipt } from '../core/receipt.ts'
import type { AgentDriver } from '../ports/agent-driver.ts'
import type { Clock } from '../ports/clock.ts'
import type { Keepers } from '../ports/keepers.ts'
import type { Peers } from '../ports/peers.ts'
import type { Random } from '../ports/random.ts'
import type { Store } from '../ports/store.ts'
import type { Workspaces } from '../ports/workspaces.ts'
import type { Engine } from '../runtime/engine.ts'

/** Everything a node reaches the world through. */
export interface NodePorts {
  readonly engine: Engine
  readonly store: Store
  readonly clock: Clock
  readonly random: Random
  readonly peers: Peers
  readonly keepers: Keepers
  readonly driver: AgentDriver
  readonly workspaces: Workspaces
  /** Signs with the machine's key. */
  signReceipt(body: ReceiptBody): Promise<StoredReceipt>
  /** This start of the machine: another one after a reboot. */
  readonly bootId: string
  readonly settings: NodeSettings
  /** Something a person may want to know: one line, without secrets and briefs. */
  readonly note?: (note: NodeNote) => void
}

export interface NodeNote {
  readonly event: string
  readonly fields: Readonly<Record<string, string>>
}

/** What the machine's owner allows and says of it; holds for this run. */
export interface NodeSettings {
  readonly description: string
  readonly labels: Readonly<Record<string, string>>
  readonly capabilities: readonly string[]
  readonly offers: NodeCard['offers']
  readonly maxAgents: number
  /** `listed`: all that the program will do for this user, by an explicit list (root without a sandbox). */
  readonly allowAllTools: NodeCard['allows']['allTools']
  /** How long this node may be silent before its agents count as lost, where a spawn does not say. */
  readonly lostAfterMs?: number
  /** Machines whose hubs may use this node, by name; absent: every hub of the mesh (rule 33). */
  readonly allowHubs?: readonly string[]
  /** Slots that one hub may hold at once; absent: all of them. */
  readonly maxAgentsPerHub?: number
  /** `none`: no agent can run here, and the card says so. */
  readonly credential: NodeCard['credential']
  readonly version: string
  readonly os: string
  readonly arch: string
}
