import { createHash } from 'node:crypto'
import type { AuditReport } from '../../../src/audit/audit-run.ts'
import type { AskPage } from '../../../src/audit/node-asking.ts'
import { type AuditWorld, auditHub, type OpenedHub } from '../../../src/cli/commands/audit.ts'
import type { CliIo } from '../../../src/cli/io.ts'
import { chainedText, emptyHistoryHash, type HistoryEvent, type HistoryFact } from '../../../src/core/history.ts'
import type { AccountLine, HistoryHead } from '../../../src/core/hub-account.ts'
import type { AttemptRef } from '../../../src/core/messages.ts'
import type { NodeAccount } from '../../../src/core/node-account.ts'
import type { ReceiptBody } from '../../../src/core/receipt.ts'
import { generateKey, type PrivateKey, peerIdOf } from '../../../src/identity/keys.ts'
import { checkReceipt, makeReceipt } from '../../../src/identity/receipts.ts'
import { settle } from '../../contracts/manual-clock.ts'
import { completed } from '../../hub/support/scripted-node.ts'
import { TwinHub } from '../../hub/support/twin-hub.ts'

export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

/** What a hub and a node have on record, as an audit reads it. */
export interface Account {
  readonly lines: readonly AccountLine[]
  readonly head: HistoryHead
  readonly node: NodeAccount
  /** The node's key, with which whoever doctors an account can sign what the node did not. */
  readonly key: PrivateKey
}

/** Signs what a node would sign about a turn that answered `text`. */
export async function receiptOf(
  key: PrivateKey,
  ref: AttemptRef,
  facts: { readonly text: string; readonly previousHash: string },
) {
  const { agentId, taskId, attemptId, epoch } = ref
  const body: ReceiptBody = {
    hubId: 'hub_1',
    agentId,
    taskId,
    attemptId,
    attempt: epoch,
    owner: peerIdOf(key),
    inputsHash: sha256('a brief'),
    outcome: 'completed',
    resultHash: sha256(facts.text),
    claimedAtMs: 1,
    startedAtMs: 2,
    endedAtMs: 3,
    settledAtMs: 4,
    previousHash: facts.previousHash,
  }
  return await makeReceipt(key, body)
}

/**
 * The history of a hub of its own making: three turns that ran on one machine, were answered, read and signed for, and one
 * that runs. Nothing in it is made up.
 */
export async function honestAccount(): Promise<Account> {
  const key = await generateKey()
  const peerId = peerIdOf(key)
  const twin = await TwinHub.withNodes({ name: 'vm1', slots: 4, peerId })
  const node = twin.node('vm1')
  const attempts: NodeAccount['attempts'][number][] = []
  let previousHash = ''
  for (const no of [0, 1, 2]) {
    await twin.spawn({ brief: `task ${no}` })
    await settle()
    const ref = node.claims[no]?.ref
    if (ref === undefined) throw new Error(`no claim ${no}`)
    const text = `answer ${no}`
    const line = { atMs: 5, turn: 1, fields: {}, text }
    const events = [1, 2].map((seq) => ({ ...line, seq, type: 'text' as const }))
    await node.say({ type: 'task_events', ref, events })
    await node.end(ref, completed(text))
    await settle()
    const receipt = await receiptOf(key, ref, { text, previousHash })
    previousHash = receipt.receiptId
    await node.say({ type: 'receipt', ref, receipt })
    await twin.wait()
    await twin.call('list_agents', {})
    const { receiptId } = receipt
    const { agentId, taskId, attemptId, epoch } = ref
    attempts.push({
      agentId,
      taskId,
      attemptId,
      epoch,
      hubId: 'hub_1',
      isOpen: false,
      textHash: sha256(text),
      receiptId,
    })
  }
  await twin.spawn({ brief: 'the one that runs' })
  await settle()
  const lines: AccountLine[] = []
  let from: string | undefined
  let head: HistoryHead = { seq: 0, hash: emptyHistoryHash }
  do {
    const page = await twin.hub.account(from)
    lines.push(...page.lines)
    head = page.head
    from = page.next
  } while (from !== undefined)
  return { lines, head, node: { peerId, attempts }, key }
}

export interface Asking {
  /** Other machines, asked through their hub. */
  readonly away?: (peerId: string) => AskPage
  readonly pause?: (ms: number) => void
  /** Where the history was over when the first page was read, of a hub that worked on meanwhile. */
  readonly firstSeq?: number
}

/** Few, so that receipts and history are on pages of their own, as they are in an account of some size. */
const linesOnPage = 5

/** What `nfltr audit` finds in it. @param asking - how nodes are asked; by default the one of this home answers */
export async function auditOf(account: Account, asking: Asking = {}): Promise<AuditReport> {
  return await auditHub(worldOf(account, asking, {} as CliIo), {})
}

/** The world of the command, in which this account is the hub's. */
export function worldOf({ lines, head, node }: Account, asking: Asking, io: CliIo): AuditWorld {
  const { away } = asking
  const hub: OpenedHub = {
    ...(away === undefined ? {} : { node: away }),
    hubId: 'hub_1',
    account: async (from = '0') => {
      const next = Number(from) + linesOnPage
      return {
        hubId: 'hub_1',
        head: from === '0' && asking.firstSeq !== undefined ? { ...head, seq: asking.firstSeq } : head,
        lines: lines.slice(Number(from), next),
        ...(next < lines.length ? { next: `${next}` } : {}),
      }
    },
    [Symbol.asyncDispose]: async () => undefined,
  }
  return {
    io,
    open: async () => hub,
    nodeHere: async () => (away === undefined ? async () => node : undefined),
    pause: async (ms) => asking.pause?.(ms),
    sha256,
    readFile: async () => '',
    openReceipt: checkReceipt,
  }
}

/** The history of an account, without its chain. */
export function historyOf({ lines }: Account): readonly HistoryEvent[] {
  return lines.flatMap((line) => (line.part === 'history' ? [line.record.event] : []))
}

/** The account with another history, chained anew: only what the events say can be wrong with it. */
export function withHistory(account: Account, facts: readonly (HistoryFact & { readonly atMs: number })[]): Account {
  let hash = emptyHistoryHash
  const records = facts.map((fact, index): AccountLine => {
    const event: HistoryEvent = { ...fact, seq: index + 1 }
    hash = sha256(chainedText(hash, event))
    return { part: 'history', record: { event, hash } }
  })
  const rest = account.lines.filter((line) => line.part !== 'history')
  return { ...account, lines: [...rest, ...records], head: { seq: records.length, hash } }
}

/** The account with some of its lines changed; none stands for a line that is taken away. */
export function withLines(account: Account, change: (line: AccountLine) => AccountLine | undefined): Account {
  return { ...account, lines: account.lines.flatMap((line) => change(line) ?? []) }
}
