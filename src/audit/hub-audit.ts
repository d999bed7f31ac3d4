import type { AccountPage } from '../core/hub-account.ts'
import { type AuditReport, AuditRun, type ReceiptOpener } from './audit-run.ts'
import { type AskPage, askNodes, type NodesToAsk } from './node-asking.ts'

/** Whose account is audited: a hub that runs, or the store of one that does not. */
export interface AuditedHub {
  readonly hubId: string
  account(from?: string): Promise<AccountPage>
  /** Asks another machine for what it has of this hub; absent where no process of the hub runs. */
  readonly node?: (peerId: string) => AskPage
}

export interface AuditWays extends ReceiptOpener, Pick<NodesToAsk, 'pause'> {
  /** Asks the node of this home for what it has of a hub; undefined where none runs. */
  nodeHere(hubId: string): Promise<AskPage | undefined>
  /** Over a text's UTF-8 bytes, as hex. */
  sha256(text: string): string
}

/** Reads a hub's whole account, asks its nodes for theirs, and judges both. */
export async function auditAccount(hub: AuditedHub, ways: AuditWays): Promise<AuditReport> {
  const { hubId } = hub
  const run = new AuditRun(ways, hubId, ways.sha256)
  let page: AccountPage | undefined = await hub.account()
  while (page !== undefined) {
    // The next page is on its way while this one is judged.
    const next: Promise<AccountPage> | undefined = page.next === undefined ? undefined : hub.account(page.next)
    ;[page] = await Promise.all([next, run.page(page)])
  }
  return await run.end(await askNodes(run, { here: await ways.nodeHere(hubId), away: hub.node, pause: ways.pause }))
}
