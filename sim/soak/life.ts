import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { JournalRecord } from '../../src/core/journal.ts'
import { journalPath } from '../../src/keeper/attempt-folder.ts'
import { openJournal } from '../../src/keeper/journal-reader.ts'
import { bootId, listProcesses, type ProcessName } from '../../src/platform/process-table.ts'
import type { Phase } from './cells.ts'
import type { Mesh } from './mesh.ts'

/** What the journal of an attempt says so far. */
export interface JournalSight {
  readonly keeper: ProcessName | undefined
  readonly program: ProcessName | undefined
  readonly hasOutput: boolean
  readonly hasResult: boolean
  readonly hasExit: boolean
}

const unseen: JournalSight = {
  keeper: undefined,
  program: undefined,
  hasOutput: false,
  hasResult: false,
  hasExit: false,
}

/**
 * Watches one agent's life from outside: by folders that appear, records in its journal, what node and hub say of it, and
 * the replies that the session has read.
 */
export class Life {
  readonly #mesh: Mesh
  readonly #agentsBefore: ReadonlySet<string>
  readonly #attemptsBefore: ReadonlySet<string>
  /** Nothing of it is known before the session was told. */
  agentId: string | undefined
  isConfirmed = false
  #last: JournalSight = unseen

  constructor(mesh: Mesh) {
    this.#mesh = mesh
    this.#agentsBefore = new Set(mesh.agentFolders())
    this.#attemptsBefore = new Set(mesh.attemptFolders())
  }

  /** Whether the node has the attempt on its disk: folders are made after that. */
  isClaimed(): boolean {
    return this.#mesh.agentFolders().some((name) => !this.#agentsBefore.has(name))
  }

  attemptIds(): readonly string[] {
    return this.#mesh.attemptFolders().filter((name) => !this.#attemptsBefore.has(name))
  }

  async journal(): Promise<JournalSight> {
    const attemptId = this.attemptIds().at(-1)
    if (attemptId === undefined) return this.#last
    this.#last = await look(journalPath(join(this.#mesh.nodeHome, 'attempts', attemptId))).catch(() => this.#last)
    return this.#last
  }

  /** A keeper that the node has just started: its journal may not be there yet. */
  startingKeeper(): ProcessName | undefined {
    const { pid } = this.#mesh.nodeProcess
    const child = listProcesses().find((entry) => entry.ppid === pid && !entry.isZombie && isKeeper(entry.pid))
    return child === undefined ? undefined : { pid: child.pid, start: child.start, bootId: bootId() }
  }

  /** Whether the node has written down how the attempt ended: it had it, and it is not among the open ones. */
  async isEndedAtNode(): Promise<boolean> {
    const status = await (await this.#mesh.node())?.status().catch(() => undefined)
    return status !== undefined && (status['agents'] as readonly unknown[]).length === 0 && this.isClaimed()
  }

  /** How many entries the hub has and has not given to a session; undefined where no hub answers. */
  async undelivered(): Promise<number | undefined> {
    const hub = await this.#mesh.hub()
    return (await hub?.client.status().catch(() => undefined))?.undelivered
  }

  /** Whether the hub knows the agent's end. */
  async isEndedAtHub(): Promise<boolean> {
    const hub = await this.#mesh.hub()
    if (hub === undefined || this.agentId === undefined) return false
    const agent = await hub.client.showAgent(this.agentId).catch(() => undefined)
    return agent !== undefined && (agent['state'] === 'idle' || agent['state'] === 'closed')
  }

  /** Replies that the session has read whole and that have the agent's result. */
  resultReplies(): number {
    return this.#mesh.sessions
      .flatMap(({ replies }) => replies)
      .filter(({ tool, document }) => {
        if (tool !== 'wait_for_agents') return false
        return (document['results'] as readonly { agent_id: string }[]).some((one) => one.agent_id === this.agentId)
      }).length
  }

  /** What has happened last, as far as it shows at this moment. */
  async phase(): Promise<Phase> {
    if (this.isConfirmed) return 'confirmed'
    if (this.resultReplies() > 0) return 'written'
    const journal = await this.journal()
    if (journal.hasExit || journal.hasResult) {
      if (await this.isEndedAtHub()) return (await this.undelivered()) === 0 ? 'offered' : 'accepted'
      if (await this.isEndedAtNode()) return 'ended'
      return 'result'
    }
    if (journal.hasOutput) return 'running'
    if (journal.program !== undefined) return 'launched'
    return this.isClaimed() ? 'claimed' : 'spawn'
  }
}

async function look(path: string): Promise<JournalSight> {
  const reader = await openJournal(path, 0)
  const records: JournalRecord[] = []
  try {
    for await (const record of reader.readRest()) records.push(record)
  } finally {
    await reader.close()
  }
  let sight = unseen
  for (const record of records) sight = { ...sight, ...fact(record, sight) }
  return sight
}

function fact(record: JournalRecord, before: JournalSight): Partial<JournalSight> {
  switch (record.type) {
    case 'header':
      return { keeper: { pid: record.keeperPid, start: record.keeperStart, bootId: record.bootId } }
    case 'launched':
      return { program: { pid: record.pid, start: record.start, bootId: bootId() } }
    case 'stdout':
      return { hasOutput: true, hasResult: before.hasResult || isResult(record.line) }
    case 'exit':
      return { hasExit: true }
    default:
      return {}
  }
}

function isResult(line: Uint8Array): boolean {
  const text = new TextDecoder().decode(line)
  return text.startsWith('{') && (JSON.parse(text) as { type?: unknown }).type === 'result'
}

function isKeeper(pid: number): boolean {
  try {
    return /keeper\/main\.[tj]s/.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8'))
  } catch {
    return false
  }
}
