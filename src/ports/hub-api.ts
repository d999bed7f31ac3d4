import type { AccountPage } from '../core/hub-account.ts'
import type { NodeAccount } from '../core/node-account.ts'
import type { StoreCondition } from './store.ts'

/**
 * What a hub does for its clients: the MCP adapter, the command line. Implemented by `hub`, served over a Unix socket by
 * `control/server`, and reached through `control/client`, which implements the same interface.
 *
 * Documents are JSON as the public interface has them (snake_case, absent keys for unknown). All refusals are `NfltrError`.
 */
export interface HubApi {
  /**
   * Takes the hub for one session, from its first tool call until the hold is released or its connection ends.
   *
   * @throws {NfltrError} `hub_held` with `details.pid`, `details.host` and `details.since` of the holder
   */
  hold(session: SessionIdentity): Promise<Hold>

  /**
   * Answers one tool call. `spawn_agent` and `wait_for_agents` make offers: the reply's bytes are stored before they are
   * returned, and a call with a key that was answered before returns the same bytes. The caller confirms
   * the key once the reply left it whole, or withdraws it when nothing of it was written (rule 1).
   *
   * @throws {NfltrError} `invalid_argument` naming `details.argument`, `hub_held`, `not_found` and others
   */
  call(call: ToolCall): Promise<ToolReply>

  confirm(callKey: string): Promise<void>
  /** The adapter wrote nothing of the reply: its entries are undelivered again. */
  withdraw(callKey: string): Promise<void>
  /**
   * The client cancelled a call whose reply was already written: it may have thrown the reply away, so its entries are
   * unconfirmed, whether or not they were confirmed before.
   */
  doubt(callKey: string): Promise<void>

  /** `hub status`. */
  status(): Promise<HubStatusDocument>
  /** `agent show`: the agent's whole record as a document. */
  showAgent(agentId: string): Promise<Record<string, unknown>>
  /** `agent logs`: events from a sequence number on, oldest first, at most `limit`. */
  logs(
    agentId: string,
    options: { readonly fromSeq: number; readonly limit: number },
  ): Promise<{ readonly events: readonly Record<string, unknown>[]; readonly nextSeq?: number }>
  /** `agent receipt`: the latest turn that has one, or the one named. @throws {NfltrError} `not_found` */
  receipt(agentId: string, options: { readonly turn?: number }): Promise<ReceiptDocument>
  /** `audit`: a page of what this hub has on record. @param from `next` of the page before */
  account(from?: string): Promise<AccountPage>
  /**
   * `audit`: a page of what a node has on record of this hub's attempts, asked just now.
   *
   * @param after - `next` of the page before
   * @throws {NfltrError} why the node could not be asked, or its answer was none: as `Peers.askAccount`
   */
  nodeAccount(peerId: string, after?: string): Promise<NodeAccount>
  /**
   * Writes all records as of this moment into a file of this machine, while work goes on.
   *
   * @throws {NfltrError} `store_damaged`, `disk_full`, `already_exists`
   */
  backup(options: { readonly file: string }): Promise<BackupDocument>
  /** Ends the hub process; agents keep running. */
  stop(): Promise<void>
}

export const toolNames = [
  'spawn_agent',
  'wait_for_agents',
  'get_result',
  'send_message',
  'stop_agent',
  'list_agents',
  'list_nodes',
] as const
export type ToolName = (typeof toolNames)[number]

export interface SessionIdentity {
  readonly pid: number
  readonly host: string
  /** RFC 3339. */
  readonly since: string
  /** Random, made by the adapter for its life. */
  readonly sessionKey: string
}

export interface Hold {
  release(): Promise<void>
}

export interface ToolCall {
  readonly tool: ToolName
  readonly args: Readonly<Record<string, unknown>>
  /** Unique per call and the same in a repeat of it: derived from session id and tool-use id, else random. */
  readonly callKey: string
  readonly sessionKey: string
  /** Aborts when the client cancelled: what was offered is then named as unconfirmed. */
  readonly signal?: AbortSignal
  /** Called about every 30 s while a call waits. */
  readonly onProgress?: (note: string) => void
}

export interface ToolReply {
  /** JSON text of the reply's document: exactly these bytes are stored with the offer. */
  readonly body: string
}

/** A receipt as its hub keeps it, and what that hub knows of the turn: whoever asks holds one against the other. */
export interface ReceiptDocument {
  readonly schema: 1
  readonly receipt_id: string
  /** The signed envelope, base64. */
  readonly envelope: string
  readonly hub_id: string
  readonly agent_id: string
  readonly task_id: string
  readonly turn: number
  readonly attempt_id: string
  readonly machine: string
  /** The machine that has to have signed it. */
  readonly peer_id: string
  readonly outcome: string
  /** SHA-256 of the brief, hex; empty where this hub never had it. */
  readonly inputs_hash: string
  /** SHA-256 of the result's text, hex. */
  readonly result_hash: string
}

export interface HubStatusDocument {
  readonly schema: 1
  readonly hub_id: string
  readonly project: string
  readonly pid: number
  readonly state: 'held' | 'free'
  readonly session?: { readonly pid: number; readonly since: string }
  readonly agents: Readonly<Record<string, number>>
  readonly undelivered: number
  readonly epoch: number
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number; readonly cost_usd: number }
  /** What is known of its store's records. */
  readonly store: StoreCondition
  /** Why hellos were refused, here or there, of the last ones; its process adds them. */
  readonly refused_hellos?: readonly { readonly code: string; readonly message: string; readonly by: string }[]
}

/** `hub backup`. */
export interface BackupDocument {
  readonly file: string
  readonly hub_id: string
  readonly store_id: string
  readonly incarnation: number
  readonly commits: number
  readonly records: number
  readonly bytes: number
  readonly made_at: string
}

/** `hub restore`. */
export interface RestoreDocument {
  readonly hub_id: string
  readonly file: string
  /** When the backup was made. */
  readonly made_at: string
  readonly records: number
  readonly store_id: string
  readonly incarnation: number
  readonly kept_as?: string
}

/** `hub repair` and `node repair`. */
export interface RepairDocument {
  readonly hub_id?: string
  readonly outcome: 'sound' | 'whole' | 'lossy'
  readonly store_id: string
  readonly incarnation: number
  readonly records: number
  readonly records_expected?: number
  readonly corrections: readonly { readonly file: string; readonly offset?: number; readonly found: string }[]
  readonly lost: readonly {
    readonly kind: 'record' | 'range' | 'tail' | 'file'
    readonly found: string
    readonly file?: string
    readonly from?: string
    readonly to?: string
    readonly state?: 'gone' | 'older'
    readonly holds?: string
  }[]
  readonly kept_as?: string
}

/** What a node answers to its own command line. */
export interface NodeApi {
  /** `node status`. */
  status(): Promise<Record<string, unknown>>
  /**
   * `node leave`: gives this machine's membership up and ends the process.
   *
   * @throws {NfltrError} `in_use` while agents run or results wait for their hub, unless forced; `timed_out`
   */
  leave(options: { readonly isForced: boolean }): Promise<Record<string, unknown>>
  /** `audit`: a page of what this node has on record of a hub's attempts. @param after `next` of the page before */
  account(hubId: string, after?: string): Promise<NodeAccount>
}
