import { hash } from 'node:crypto'
import { auditAccount } from '../src/audit/hub-audit.ts'
import { NfltrError } from '../src/core/errors.ts'
import type { ReceiptBody, StoredReceipt } from '../src/core/receipt.ts'
import { decodeRecord } from '../src/core/record-json.ts'
import type { HubProcess } from './hub-process.ts'
import type { SeededRandom } from './random.ts'
import type { Scene } from './scene.ts'

/**
 * Audits each hub as `nfltr audit` does, in the middle of things: with machines away, answers on their way and results
 * between two disks. Whatever it finds is a false word, since the checks that see everything find nothing.
 */
export function auditAtWork({ hubs, world }: Scene): void {
  const random = world.random(`audit at ${world.nowMs}`)
  for (const process of hubs) process.life?.reach(() => void audited(process, random))
}

/** The longest that a page of a hub's account takes, in milliseconds: a large one takes long as a whole. */
const pageMaxMs = 800

async function audited({ hub, hubId, life, world }: HubProcess, random: SeededRandom): Promise<void> {
  if (hub === undefined || life === undefined) return
  const slowness = random.next() * pageMaxMs
  try {
    const { violations, nodes, notAsked } = await auditAccount(
      {
        hubId,
        account: async (from) => await life.delayed(random.next() * slowness, () => hub.account(from)),
        node: (peerId) => (after) => hub.nodeAccount(peerId, after),
      },
      {
        nodeHere: async () => undefined,
        pause: (ms) => life.delayed(ms, () => world.count('audit: a node was asked again')),
        sha256: (text) => hash('sha256', text, 'hex'),
        openReceipt,
      },
    )
    world.count('audit at work')
    for (let node = 0; node < nodes; node += 1) world.count('audit: a node answered')
    for (const { why } of notAsked) world.count(`audit: a node was not asked, ${why?.code}`)
    for (const { check, message } of violations) {
      if (!world.isExcused(check)) world.violate(check, `an audit at work found: ${message}`)
    }
  } catch (error) {
    // A hub whose disk fails gives no account of itself.
    if (!(error instanceof NfltrError)) throw error
    world.count(`audit at work: ${error.code}`)
  }
}

/** What nodes sign in a simulated world is the body as it is. */
async function openReceipt(
  { receiptId, envelope }: StoredReceipt,
  { machinePeerId }: { readonly machinePeerId: string },
): Promise<ReceiptBody> {
  const body = decodeRecord<ReceiptBody>(envelope)
  if (receiptId !== `rcp_${hash('sha256', envelope, 'hex')}` || body.owner !== machinePeerId) {
    throw new NfltrError('bad_signature', `The receipt ${receiptId} is not of ${machinePeerId}.`)
  }
  return body
}
