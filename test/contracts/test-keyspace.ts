import type { StoreOperation } from '../../src/ports/store.ts'
import { type KeyspaceRow, keyspace } from '../../src/store/keyspace.ts'

/** The table with a row for tests. */
export const testKeyspace: readonly KeyspaceRow[] = [
  ...keyspace,
  { prefix: 'test/', owner: 'test', holds: 'anything', retention: 'the test' },
]

export function put(key: string, text: string): StoreOperation {
  return { type: 'put', key, value: new TextEncoder().encode(text) }
}
