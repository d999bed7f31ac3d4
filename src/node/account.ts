import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { AccountAnswer, AttemptWord, NodeAccount } from '../core/node-account.ts'
import type { NodeAttempt } from '../core/node-attempt-state.ts'
import { isOpen } from '../core/node-attempt-step.ts'
import type { PeerFacts } from '../ports/peers.ts'
import type { Store } from '../ports/store.ts'
import type { Engine } from '../runtime/engine.ts'
import { sha256Hex } from './digest.ts'
import { attemptsAfter, type HubRecord, readResult } from './records.ts'

export interface AccountsParts {
  readonly engine: Engine
  readonly store: Store
  readonly peerId: string
  readonly hub: (hubId: string) => HubRecord | undefined
}

/** Tells what this node has on record of a hub's attempts, tombstones included. Reads only. */
export class Accounts {
  readonly #parts: AccountsParts
  /** By hub, the page that is being read: one at a time, whatever a hub asks for. */
  readonly #reading = new Map<string, Promise<unknown>>()

  constructor(parts: AccountsParts) {
    this.#parts = parts
  }

  /**
   * A page for a hub that asks over the mesh: about its own attempts, whatever it asks for.
   *
   * @throws {NfltrError} `bad_certificate` for a process that another machine certified under this hub's id (rule 10);
   *   `store_damaged` where a record of the page cannot be read
   */
  async answer({ hubId, machinePeerId, name }: PeerFacts, after: string | undefined): Promise<AccountAnswer> {
    const known = hubId === undefined ? undefined : this.#parts.hub(hubId)
    if (known === undefined) return { attempts: [], isLast: true }
    if (known.machinePeerId !== machinePeerId) {
      throw new NfltrError('bad_certificate', `${name} asked about a hub of another machine.`)
    }
    return await this.#page(known.hubId, after)
  }

  /** A page for a program of this user. @throws {NfltrError} `store_damaged` */
  async account(hubId: string, after: string | undefined): Promise<NodeAccount> {
    const { attempts, isLast } = await this.#page(hubId, after)
    const next = isLast ? undefined : attempts.at(-1)?.attemptId
    return {
      peerId: this.#parts.peerId,
      attempts: attempts.map((attempt) => ({ ...attempt, hubId })),
      ...(next === undefined ? {} : { next }),
    }
  }

  #page(hubId: string, after: string | undefined): Promise<AccountAnswer> {
    const page = (this.#reading.get(hubId) ?? Promise.resolve()).then(() => this.#read(hubId, after))
    const over = page.catch(() => undefined)
    this.#reading.set(hubId, over)
    void over.then(() => {
      if (this.#reading.get(hubId) === over) this.#reading.delete(hubId)
    })
    return page
  }

  /** The page ends early where many bytes had to be read for it: whoever asks waits for each page so long and no longer. */
  async #read(hubId: string, after: string | undefined): Promise<AccountAnswer> {
    const { engine, store } = this.#parts
    await engine.settled()
    const attempts: AttemptWord[] = []
    let textLength = 0
    for await (const state of attemptsAfter(store, after)) {
      if (state.hubId !== hubId || state.phase === 'declined') continue
      if (attempts.length >= limits.accountPageMax || textLength >= pageTextCharacters)
        return { attempts, isLast: false }
      const text = await textOf(store, state)
      textLength += text?.length ?? 0
      attempts.push(wordOf(state, text))
    }
    return { attempts, isLast: true }
  }
}

/** Characters of results that are read for one page, but for the last one. */
const pageTextCharacters = 8 * 1024 * 1024

/** The result's text, where there is one to hold against the hub's. */
async function textOf(store: Store, state: NodeAttempt): Promise<string | undefined> {
  // An end that the hub was told as a loss is evidence: the hub has another one.
  if (isOpen(state) || state.phase === 'forgotten' || state.end?.keeperGone !== undefined) return undefined
  return (await readResult(store, state.ref.attemptId))?.text
}

function wordOf(state: NodeAttempt, text: string | undefined): AttemptWord {
  const { agentId, taskId, attemptId, epoch } = state.ref
  return {
    agentId,
    taskId,
    attemptId,
    epoch,
    isOpen: isOpen(state),
    ...(text === undefined ? {} : { textHash: sha256Hex(text) }),
    ...(state.receipt === undefined ? {} : { receiptId: state.receipt.receiptId }),
  }
}
