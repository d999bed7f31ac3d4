import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { NodeAccount } from '../core/node-account.ts'
import type { AuditRun } from './audit-run.ts'

/** Asks for a page of what a node has on record of the audited hub. @throws {NfltrError} where it does not answer */
export type AskPage = (after?: string) => Promise<NodeAccount>

export interface NodesToAsk {
  /** The node of this home, where one runs, whether it took turns or not. */
  readonly here: AskPage | undefined
  /** Any other, through its hub; absent where no process of the hub runs that could ask. */
  readonly away: ((peerId: string) => AskPage) | undefined
  readonly pause: (ms: number) => Promise<void>
}

export interface AskedNodes {
  readonly accounts: readonly NodeAccount[]
  /** By PeerId, why a machine could not be asked, or what was wrong with its answer. */
  readonly failures: ReadonlyMap<string, NfltrError>
}

/** Machines that are asked at once. */
const askedAtOnce = 8

/** How often a node is asked that says it works on what has ended, and how long after each time, in milliseconds. */
const looks = 4
const lookAgainMs = 1_000

/**
 * Asks every machine that took turns of the hub. After the hub's own account was read, never before: what the hub has as
 * ended had ended on its node before that, so a node that is asked later can only be further.
 */
export async function askNodes(run: AuditRun, { here, away, pause }: NodesToAsk): Promise<AskedNodes> {
  const accounts: NodeAccount[] = []
  const failures = new Map<string, NfltrError>()
  if (here !== undefined) accounts.push(await settledAccount(run, here, pause))
  const left = run.machines().filter((peerId) => accounts.every((account) => account.peerId !== peerId))
  const askOn = async (): Promise<void> => {
    for (let peerId = left.shift(); peerId !== undefined; peerId = left.shift()) {
      try {
        if (away === undefined) throw new NfltrError('not_running', 'no hub runs that could ask')
        accounts.push(await settledAccount(run, away(peerId), pause))
      } catch (error) {
        if (!(error instanceof NfltrError)) throw error
        failures.set(peerId, error)
      }
    }
  }
  await Promise.all(Array.from({ length: askedAtOnce }, askOn))
  return { accounts, failures }
}

/**
 * What a node has on record. One that says it works on what its hub has as ended is asked again: a node whose store was put
 * back finds its turns open, and has to read their journals before it knows better.
 */
async function settledAccount(run: AuditRun, ask: AskPage, pause: NodesToAsk['pause']): Promise<NodeAccount> {
  for (let look = 1; ; look += 1) {
    const account = await wholeAccount(run, ask)
    if (look === looks || !run.isBehind(account)) return account
    await pause(lookAgainMs)
  }
}

/** All pages. What the hub does not know of is passed over: it says nothing about the hub, and may be any amount. */
async function wholeAccount(run: AuditRun, ask: AskPage): Promise<NodeAccount> {
  let page = await ask()
  const { peerId } = page
  const attempts = page.attempts.filter(({ attemptId }) => run.knows(attemptId))
  for (let count = page.attempts.length; page.next !== undefined; count += page.attempts.length) {
    if (count > limits.accountAttemptsMax) {
      const message = `The node told of more than ${limits.accountAttemptsMax} attempts.`
      throw new NfltrError('protocol_violation', message)
    }
    page = await ask(page.next)
    attempts.push(...page.attempts.filter(({ attemptId }) => run.knows(attemptId)))
  }
  return { peerId, attempts }
}
