import { NfltrError } from '../../core/errors.ts'

/** A receipt as somebody handed it over, with the machine that is said to have signed it. */
export interface GivenReceipt {
  readonly receiptId: string
  readonly hubId: string
  readonly owner: string
  readonly envelope: Uint8Array
}

/**
 * Reads receipts from a file: documents of `agent receipt --json`, one after the other, each on one line or on many.
 *
 * @throws {NfltrError} `invalid_argument` where the file holds something else
 */
export async function readGivenReceipts(
  world: { readFile(path: string): Promise<string> },
  path: string,
): Promise<readonly GivenReceipt[]> {
  const documents = documentsIn(await world.readFile(path))
  if (documents.length === 0) throw unreadable('it holds no document')
  return documents.map(receiptIn)
}

function documentsIn(text: string): readonly unknown[] {
  const found: unknown[] = []
  let open: string[] = []
  for (const line of text.split('\n')) {
    if (open.length === 0 && line.trim() === '') continue
    open.push(line)
    // A document may end only where a line closes it: trying elsewhere would be quadratic.
    if (!/[}\]]\s*$/.test(line)) continue
    const document = parsed(open.join('\n'))
    if (document === undefined) continue
    found.push(...(Array.isArray(document) ? (document as unknown[]) : [document]))
    open = []
  }
  if (open.length > 0) throw unreadable('it ends within a document, or is no JSON')
  return found
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function receiptIn(document: unknown): GivenReceipt {
  const fields = (typeof document === 'object' && document !== null ? document : {}) as Record<string, unknown>
  const text = (name: string): string => {
    const value = fields[name]
    if (typeof value !== 'string') throw unreadable(`a document in it has no ${name}`)
    return value
  }
  return {
    receiptId: text('receipt_id'),
    hubId: text('hub_id'),
    owner: text('owner'),
    envelope: new Uint8Array(Buffer.from(text('envelope'), 'base64')),
  }
}

function unreadable(why: string): NfltrError {
  return new NfltrError('invalid_argument', `The file of receipts cannot be read: ${why}.`, {
    hint: 'It holds what nfltr agent receipt ID --json prints, for one turn or for several, one after the other.',
    details: { argument: '--receipts' },
  })
}
