import { describe, expect, test } from 'vitest'
import type { AuditReport } from '../../src/audit/audit-run.ts'
import { auditReceipts } from '../../src/cli/commands/audit.ts'
import { readGivenReceipts } from '../../src/cli/commands/audit-receipts.ts'
import type { CliIo } from '../../src/cli/io.ts'
import { generateKey, type PrivateKey, peerIdOf } from '../../src/identity/keys.ts'
import { checkReceipt } from '../../src/identity/receipts.ts'
import { receiptOf } from './support/audited.ts'

/** Documents of `agent receipt --json` about a chain of turns of one node. */
async function chain(key: PrivateKey, length: number): Promise<readonly Record<string, unknown>[]> {
  const documents: Record<string, unknown>[] = []
  let previousHash = ''
  for (let no = 1; no <= length; no++) {
    const ref = { agentId: `agt_${no}`, taskId: `tsk_${no}`, attemptId: `att_${no}`, epoch: 1 }
    const { receiptId, envelope } = await receiptOf(key, ref, { text: `answer ${no}`, previousHash })
    previousHash = receiptId
    const owner = peerIdOf(key)
    documents.push({
      receipt_id: receiptId,
      hub_id: 'hub_1',
      owner,
      envelope: Buffer.from(envelope).toString('base64'),
    })
  }
  return documents
}

async function checked(text: string): Promise<AuditReport> {
  const world = {
    io: {} as CliIo,
    open: () => Promise.reject(new Error('no hub is asked')),
    nodeHere: () => Promise.reject(new Error('no node is asked')),
    sha256: () => '',
    pause: () => Promise.reject(new Error('nothing is waited for')),
    readFile: async () => text,
    openReceipt: checkReceipt,
  }
  return await auditReceipts(world, await readGivenReceipts(world, 'receipts.json'))
}

const messages = ({ violations }: AuditReport): string => violations.map(({ message }) => message).join('\n')

describe('a file of receipts', () => {
  test('is sound when it holds a whole chain, as documents or as lines', async () => {
    const documents = await chain(await generateKey(), 3)

    const asDocuments = await checked(documents.map((one) => JSON.stringify(one, undefined, 2)).join('\n'))
    const asLines = await checked(`${documents.map((one) => JSON.stringify(one)).join('\n')}\n`)

    expect(asDocuments).toMatchObject({ receipts: 3, violations: [], hubId: 'hub_1' })
    expect(asLines).toMatchObject({ receipts: 3, violations: [] })
  })

  test('may hold a later part of a chain, and no chain with a hole', async () => {
    const [first, second, third, fourth] = await chain(await generateKey(), 4)

    expect((await checked([second, third].map((one) => JSON.stringify(one)).join('\n'))).violations).toEqual([])
    const holed = await checked([first, second, fourth].map((one) => JSON.stringify(one)).join('\n'))
    expect(holed.violations).toMatchObject([{ check: 'receipts' }])
    expect(messages(holed)).toContain('is missing')
  })

  test('is not sound with a changed byte, or another machine as its signer', async () => {
    const [receipt = {}] = await chain(await generateKey(), 1)
    const bytes = Buffer.from(String(receipt['envelope']), 'base64')
    bytes[bytes.length - 1] = (bytes[bytes.length - 1] ?? 0) ^ 1
    const stranger = peerIdOf(await generateKey())

    const changed = await checked(JSON.stringify({ ...receipt, envelope: bytes.toString('base64') }))
    const foreign = await checked(JSON.stringify({ ...receipt, owner: stranger }))

    expect(changed.violations).toMatchObject([{ check: 'receipts' }])
    expect(foreign.violations).toMatchObject([{ check: 'receipts' }])
  })

  test('is refused by name when it is something else', async () => {
    for (const text of ['', 'no JSON', '{"receipt_id":"rcp_1"}', '{"receipt_id":']) {
      await expect(checked(text)).rejects.toMatchObject({
        code: 'invalid_argument',
        details: { argument: '--receipts' },
      })
    }
  })
})
