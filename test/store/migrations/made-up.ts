import type { StoreEntry } from '../../../src/ports/store.ts'
import type { Migration } from '../../../src/store/migrations/migrations.ts'

const [utf8, toUtf8] = [new TextDecoder(), new TextEncoder()]

/** Moves each record, and adds a sign to what it holds: done twice, it would show. Leaves out what is empty. */
export const moveAndSign: Migration = {
  what: 'records are below test/new/ and signed',
  change: ({ key, value }: StoreEntry) =>
    value.length === 0 ? [] : [{ key: key.replace('test/', 'test/new/'), value: signed(value, '!') }],
}

/** Makes two records of one. */
export const split: Migration = {
  what: 'the length of each record stands beside it',
  change: ({ key, value }: StoreEntry) => [
    { key, value },
    { key: `${key}/length`, value: toUtf8.encode(String(value.length)) },
  ],
}

function signed(value: Uint8Array, sign: string): Uint8Array {
  return toUtf8.encode(`${utf8.decode(value)}${sign}`)
}
