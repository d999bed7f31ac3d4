import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import type { AskPage } from '../../audit/node-asking.ts'
import { nodeClient } from '../../control/client.ts'
import { NfltrError } from '../../core/errors.ts'
import type { HomePaths } from '../../ports/home.ts'
import { openHome } from '../../store/home/home.ts'
import type { AuditWorld, OpenedHub } from '../commands/audit.ts'
import type { Context } from '../compose.ts'
import { findControl } from './control-files.ts'
import { findRunningHub } from './hub-starter.ts'
import { projectOf } from './project.ts'
import { assertStore, repairCommandOf } from './store-world.ts'

interface HubChoice {
  readonly hubId?: string
  readonly home?: string
}

export function auditWorld(context: Context): AuditWorld {
  const { env, io } = context
  let paths: HomePaths | undefined
  let check: Promise<AuditWorld['openReceipt']> | undefined
  return {
    io,
    open: async (options: HubChoice) => {
      const home = openHome({ ...options, env })
      paths = home.paths
      const { hubId } = projectOf({ ...options, env })
      const running = await findRunningHub(home, hubId)
      if (running === undefined) return await storedHub(home.paths.hub(hubId), hubId)
      return {
        hubId,
        account: (from) => running.account(from),
        node: (peerId) => (after) => running.nodeAccount(peerId, after),
        [Symbol.asyncDispose]: async () => undefined,
      }
    },
    nodeHere: async (hubId) => (paths === undefined ? undefined : await nodeOfHome(paths, hubId)),
    pause: (ms) => pause(ms),
    sha256: (text) => hash('sha256', text, 'hex'),
    readFile: (path) => (path === '-' ? io.readInput() : readGiven(path)),
    openReceipt: async (receipt, expected) => {
      check ??= receiptChecker()
      return await (await check)(receipt, expected)
    },
  }
}

/** What an audit reads it checks anyway: a look at everything would only do the same work beside it. In milliseconds. */
const scrubDelayMs = 600_000

/**
 * Nobody serves the hub, so its store is free to be read. Nothing is written into it.
 *
 * @throws {NfltrError} `not_found`: of a hub that never was, nothing can be said to be right
 */
async function storedHub(dir: string, hubId: string): Promise<OpenedHub> {
  assertStore(dir, hubId)
  const { openLevelStore } = await import('../../store/level-store.ts')
  const { accountPage } = await import('../../hub/account.ts')
  const { sha256 } = await import('../../identity/hash.ts')
  const store = await openLevelStore(dir, { repairCommand: repairCommandOf(hubId), scrubDelayMs })
  const hash = (text: string): string => Buffer.from(sha256(new TextEncoder().encode(text))).toString('hex')
  return {
    hubId,
    account: (from) => accountPage({ hubId, store, sha256: hash, turns: () => [] }, from),
    [Symbol.asyncDispose]: () => store.close(),
  }
}

/** The node of this home, where one runs: it is asked without the mesh, also where no hub runs. */
async function nodeOfHome(paths: HomePaths, hubId: string): Promise<AskPage | undefined> {
  try {
    const node = nodeClient(await findControl(paths, { kind: 'node' }))
    await node.status()
    return (after) => node.account(hubId, after)
  } catch (error) {
    if (error instanceof NfltrError && (error.code === 'not_running' || error.code === 'link_down')) return undefined
    throw error
  }
}

/** An audit checks thousands: in threads, so that both processors work. */
async function receiptChecker(): Promise<AuditWorld['openReceipt']> {
  const { checkReceipt } = await import('../../identity/receipts.ts')
  const { verifierInThreads } = await import('../../identity/signatures.ts')
  const verify = verifierInThreads()
  return (receipt, expected) => checkReceipt(receipt, expected, verify)
}

async function readGiven(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw new NfltrError('invalid_argument', `The file of receipts ${path} could not be read.`, {
      cause,
      hint: 'Name a file that is there and that this user may read.',
      details: { argument: '--receipts' },
    })
  }
}
